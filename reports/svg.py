"""Inline SVG that a page can carry under a strict content security policy, and that a screen reader can name."""

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from markupsafe import Markup

from leakledger.reports.text import visible

NAMESPACE = "http://www.w3.org/2000/svg"
ET.register_namespace("", NAMESPACE)
# What a page may carry. Nothing here loads, runs or links.
ELEMENTS = frozenset({"svg", "g", "path", "line", "rect", "circle", "text", "title", "desc"})


def element(
    name: str, parent: ET.Element | None = None, text: str | None = None, **attributes: str | float
) -> ET.Element:
    """A new SVG element, appended to `parent`. `class_` stands for class, and an inner underscore for a hyphen."""
    plain = {k.strip("_").replace("_", "-"): v if isinstance(v, str) else f"{v:.4g}" for k, v in attributes.items()}
    node = ET.Element(f"{{{NAMESPACE}}}{name}", plain)
    node.text = None if text is None else visible(text)
    if parent is not None:
        parent.append(node)
    return node


def local_name(node: ET.Element) -> str:
    """The element's name without its namespace."""
    return node.tag.rpartition("}")[2]


def inline(root: ET.Element, name: str, title: str, description: str) -> Markup:
    """`root` as markup: one image with a title and a description. `name` makes its ids unique on the page.

    Raises ValueError for an element or attribute that could load or run anything.
    """
    for node in root.iter():
        _check(node)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        node = element(tag, text=text, id=f"{name}-{tag}")
        root.insert(place, node)
    return Markup(ET.tostring(root, encoding="unicode"))


def _check(node: ET.Element) -> None:
    if local_name(node) not in ELEMENTS:
        raise ValueError(f"a chart must not contain <{local_name(node)}>")
    for attribute in node.attrib:
        if attribute.startswith("on") or attribute.endswith("href") or attribute == "style":
            raise ValueError(f"a chart must not use the attribute {attribute!r}")


def static(vega: str) -> ET.Element:
    """A chart that Vega drew, as plain shapes: labels of marks become tooltips, everything for scripts goes."""
    root = ET.fromstring(vega)
    for node in root.iter():
        label, hidden = node.attrib.pop("aria-label", None), node.attrib.pop("aria-hidden", None)
        for attribute in ("role", "aria-roledescription", "pointer-events", "font-family", "version"):
            node.attrib.pop(attribute, None)
        if label and not hidden and local_name(node) != "g":
            node.insert(0, element("title", text=label))
    _prune(root)
    return root


def _prune(root: ET.Element) -> None:
    """Drops what draws nothing: Vega's empty backgrounds and foregrounds, and labels that it hid to avoid overlap."""
    for parent, node in list(_pairs(root)):
        if node.get("d") in ("", "M0,0h0v0h0Z") or node.get("opacity") == "0" or node.get("display") == "none":
            parent.remove(node)


def _pairs(root: ET.Element) -> Iterator[tuple[ET.Element, ET.Element]]:
    return ((parent, node) for parent in root.iter() for node in parent)
