"""A page as a tree of elements: what a browser makes of it, without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_ALONE = {"meta", "link", "input", "br", "img", "hr"}


@dataclass
class Element:
    """An element, the elements in it, and its text."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    parts: list[Element | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Element]:
        """Itself, and all that is in it, in the order of the page."""
        yield self
        for one in self.parts:
            if isinstance(one, Element):
                yield from one

    @property
    def text(self) -> str:
        """All text in it, with single spaces."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for one in self.parts:
            if isinstance(one, str):
                yield one
            else:
                yield from one._texts()
        yield "" if self.tag in ("span", "b", "strong", "a", "code", "title") else " "

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """The elements in it of a kind; ``cls`` is one of its classes."""
        return [one for one in self if one.tag == tag and one._has(attributes)]

    def one(self, tag: str, **attributes: str) -> Element:
        """The only one."""
        (found,) = self.all(tag, **attributes)
        return found

    def _has(self, wanted: dict[str, str]) -> bool:
        mine = {**self.attributes, "cls": self.attributes.get("class", "")}
        return all(
            value in mine[name].split() if name == "cls" else mine.get(name) == value for name, value in wanted.items()
        )

    @property
    def shape(self) -> list[str]:
        """The elements with the names of their attributes: what no value may change."""
        return [" ".join([one.tag, *one.attributes]) for one in self]

    def rows(self) -> list[list[str]]:
        """The cells of a table."""
        return [[cell.text for cell in row if cell.tag in ("th", "td")] for row in self.all("tr")]


class _Reading(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].parts.append(made)
        if tag not in _ALONE:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> ends <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)


def parsed(html: str) -> Element:
    """The page; every element that begins in it has to end in it."""
    reading = _Reading()
    reading.feed(html)
    reading.close()
    assert len(reading.open) == 1, f"not ended: {[one.tag for one in reading.open]}"
    return reading.open[0]
