from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.reports import svg
from leakledger.reports.text import visible


@given(st.text(st.characters()))
def test_any_text_comes_back_from_the_markup_as_text(words):
    root = svg.element("svg")
    svg.element("text", root, words)
    back = ET.fromstring(svg.inline(root, "chart", words, words))
    assert [node.text or "" for node in back] == [visible(words)] * 3


@pytest.mark.parametrize("name", ["script", "image", "foreignObject", "a", "style", "use"])
def test_elements_that_load_or_run_are_refused(name):
    with pytest.raises(ValueError, match=name):
        svg.inline(svg.element(name, svg.element("svg")), "c", "t", "d")


@pytest.mark.parametrize("attribute", ["onclick", "href", "{http://www.w3.org/1999/xlink}href", "style"])
def test_attributes_that_load_or_run_are_refused(attribute):
    root = svg.element("svg")
    root.set(attribute, "javascript:alert(1)")
    with pytest.raises(ValueError, match="must not use the attribute"):
        svg.inline(root, "c", "t", "d")


def test_labels_of_marks_become_tooltips_and_empty_shapes_go():
    drawn = (
        f'<svg xmlns="{svg.NAMESPACE}">'
        '<g aria-label="axis" role="graphics-symbol"><path d=""/><text opacity="0">1</text></g>'
        '<path aria-label="a &lt; b" d="M0,0h1"/><text aria-label="x" aria-hidden="true">7</text></svg>'
    )
    root = svg.static(drawn)
    assert [svg.local_name(n) for n in root.iter()] == ["svg", "g", "path", "title", "text"]
    assert [n.text for n in root.iter() if svg.local_name(n) == "title"] == ["a < b"]
    assert not any(name.startswith(("aria", "role")) for n in root.iter() for name in n.attrib)
