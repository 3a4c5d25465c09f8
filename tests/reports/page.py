"""Reads a page the way a browser does, as far as the tests need it: elements, attributes, text, tables."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "wbr", "br"}


@dataclass
class Node:
    tag: str
    attributes: dict
    parent: "Node | None" = None
    children: list = field(default_factory=list)  # nodes and text

    def all(self, *tags):
        """Descendants with one of `tags` (all of them without any), in document order."""
        for child in self.children:
            if isinstance(child, Node):
                if not tags or child.tag in tags:
                    yield child
                yield from child.all(*tags)

    @property
    def text(self):
        return "".join(c if isinstance(c, str) else c.text for c in self.children)

    @property
    def words(self):
        """The text with single spaces, as a reader sees it."""
        return " ".join(self.text.split())

    def by_id(self, name):
        return next(n for n in self.all() if n.attributes.get("id") == name)

    def table(self, caption):
        """The rows of the table whose caption begins with `caption`, each a list of its cells' words."""
        found = next(t for t in self.all("table") if next(t.all("caption")).words.startswith(caption))
        return [[c.words for c in row.all("th", "td")] for row in next(found.all("tbody")).all("tr")]


class Parser(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.here = self.root = Node("#root", {})

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> repeats an attribute: {names}"
        node = Node(tag, dict(attrs), self.here)
        self.here.children.append(node)
        if tag not in VOID:
            self.here = node

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.here = self.here.parent

    def handle_endtag(self, tag):
        assert tag == self.here.tag, f"</{tag}> closes <{self.here.tag}>"
        self.here = self.here.parent

    def handle_data(self, data):
        self.here.children.append(data)


def parse(html):
    parser = Parser()
    parser.feed(html)
    parser.close()
    assert parser.here is parser.root, f"<{parser.here.tag}> is never closed"
    return parser.root
