"""Pages of Data Docs as they are served: all that they need comes from this server, and no script of theirs is left.

Great Expectations writes pages that fetch styles and scripts from elsewhere and run scripts of their own, some of which
hold data. A page is taken apart, and put together again from known elements and attributes alone; what its scripts did
(fold, filter, list the runs) is done by plain tables and one small script that is not theirs. Its graphs are not drawn.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from html import escape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

STYLES = ("bootstrap-4.3.1.min.css", "docs.css")
SCRIPT = "docs.js"
_ELEMENTS = re.compile(
    "html|head|title|style|body|nav|main|header|section|div|span|p|a|ul|ol|li|dl|dt|dd|table|caption|thead|tbody|tfoot|"
    "tr|th|td|h[1-6]|strong|b|em|i|u|s|code|pre|small|sup|sub|blockquote|br|hr|img|label|input"
)
_EMPTY = re.compile("br|hr|img|input")
_DROPPED_WHOLE = re.compile("script|footer|button|iframe|object|svg|math|template|noscript|textarea|select")
"""Elements that go with all that is in them; of others that are not known the text stays."""
_ATTRIBUTES = re.compile(
    "class|id|style|href|src|alt|title|role|type|name|value|checked|hidden|colspan|rowspan|for|scope|lang|dir|"
    "(aria|data)-[a-z-]+"
)
_FOREIGN_URL = re.compile(r"url\(\s*['\"]?\s*(?:[a-z][a-z0-9+.-]*:)?//[^)]*\)", re.IGNORECASE)
_LIST = re.compile(r"\.bootstrapTable\(\s*Object\.assign\(")
_PART = r"^\s*{}: (\[.*\]),\s*$"
_LOGO = "logo-long.png"
_NOT_LISTED = "This list cannot be shown here: this version of Great Expectations writes it in another way."
_META = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
_NOT_DRAWN = "A graph that is drawn by scripts is not shown here."


def served(page: str, *, up: str, site: str, nonce: str) -> str:
    """A page as it is served.

    :param up: The way from the page to the folder of the pages in Airflow, such as ``../../``.
    :param site: The way from the page to the start of Data Docs.
    :param nonce: What tells the browser that a script is ours.
    """
    first, last = (f'<link rel="stylesheet" href="{up}static/{name}">' for name in STYLES)
    icon = f'<link rel="icon" href="{site}static/images/favicon.ico">'
    script = f'<script nonce="{nonce}" src="{up}static/{SCRIPT}" defer></script>'
    return _rewritten(page, site, (f"{_META}{icon}{first}", f"{last}{script}"))


def _rewritten(text: str, site: str, head: tuple[str, str] = ("", "")) -> str:
    rewriting = _Rewriting(site, head)
    rewriting.feed(text)
    rewriting.close()
    return "".join(rewriting.pieces)


class _Rewriting(HTMLParser):
    """Reads a page, or the content of a cell, and keeps what is known."""

    def __init__(self, site: str, head: tuple[str, str]) -> None:
        super().__init__(convert_charrefs=True)
        self.site = site
        self.head = head
        """What comes first and last in the page's head."""
        self.pieces: list[str] = []
        self.dropped: list[str] = []
        """The elements around this place that are dropped whole, the innermost last."""
        self.script: list[str] = []
        self.in_style = False
        self.in_empty_table = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Write a known element with its known attributes."""
        if self.dropped or _DROPPED_WHOLE.fullmatch(tag):
            if _DROPPED_WHOLE.fullmatch(tag):
                self.dropped.append(tag)
            return
        if not _ELEMENTS.fullmatch(tag):
            return
        given = {name: value or "" for name, value in attrs}
        if tag == "table" and given.get("id", "").endswith("-body-table"):
            self.in_empty_table = True  # a script fills it: its place is where the script is
        elif tag == "head":
            self.pieces.append(f"<head>{self.head[0]}")
        elif tag != "img" or self._has_local_source(given):
            self.in_style = tag == "style"
            self.pieces.append(f"<{tag}{''.join(_attributes(tag, given))}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Write an element such as ``<br/>``; a slash at the end of others means nothing in HTML."""
        if not _DROPPED_WHOLE.fullmatch(tag) or tag == "script":
            self.handle_starttag(tag, attrs)
        if tag == "script":
            self.set_cdata_mode(tag)

    def handle_endtag(self, tag: str) -> None:
        """End a known element, or one that is dropped: a script may have been the data of a list."""
        if tag in self.dropped:
            while self.dropped.pop() != tag:
                pass
            if tag == "script" and not self.dropped:
                self.pieces.append(self._instead_of_script("".join(self.script)))
            self.script.clear()
        elif self.dropped:
            return
        elif self.in_empty_table and tag == "table":
            self.in_empty_table = False
        elif _ELEMENTS.fullmatch(tag) and not _EMPTY.fullmatch(tag):
            self.in_style = False
            self.pieces.append(f"{self.head[1]}</head>" if tag == "head" else f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """Write text: nothing in it starts an element, whatever another reader would make of it."""
        if self.dropped:
            if self.dropped[-1] == "script":
                self.script.append(data)
        elif self.in_style:
            self.pieces.append(_FOREIGN_URL.sub("none", data))
        else:
            self.pieces.append(escape(data))

    def handle_decl(self, decl: str) -> None:
        """Write the document's type; nothing else is declared."""
        if decl.lower() == "doctype html":
            self.pieces.append("<!doctype html>")

    def _has_local_source(self, given: dict[str, str]) -> bool:
        """Whether an image is on this site; the logo is, though the page would fetch it from elsewhere."""
        parts = urlsplit(given.get("src", ""))
        if (parts.scheme or parts.netloc) and parts.path.rpartition("/")[2] == _LOGO:
            given["src"] = f"{self.site}static/images/{_LOGO}"
            return True
        return not parts.scheme and not parts.netloc

    def _instead_of_script(self, script: str) -> str:
        if _LIST.search(script):
            return _listed(script, self.site)
        return f'<p class="text-muted">{_NOT_DRAWN}</p>' if "vegaEmbed(" in script else ""


def _attributes(tag: str, given: Mapping[str, str]) -> Iterable[str]:
    """The known attributes of an element, their values escaped."""
    if tag == "html":
        given = {"lang": "en", **given}
    for name, value in given.items():
        if name in ("href", "src") and not _is_harmless(value):
            continue
        if _ATTRIBUTES.fullmatch(name):
            shown = _FOREIGN_URL.sub("none", value) if name == "style" else value
            yield f' {name}="{escape(shown)}"'


def _is_harmless(address: str) -> bool:
    """Whether an address is one of the web, not of a script: browsers skip blanks and controls in front and within."""
    bare = re.sub(r"[\x00-\x20\x7f-\x9f]", "", address)
    scheme = re.match(r"([^/?#]*):", bare)
    return scheme is None or scheme[1].lower() in ("http", "https", "mailto")


def _listed(script: str, site: str) -> str:
    """The list that a script of the start page would draw, as a table with a field to filter it."""
    try:
        columns, rows = (ast.literal_eval(_part(script, name)) for name in ("columns", "data"))
        fields = [str(one["field"]) for one in columns]
        titles = "".join(f'<th scope="col">{escape(str(one["title"]))}</th>' for one in columns)
        body = "".join(f"<tr>{_row(row, fields, site)}</tr>" for row in rows)
    except (ValueError, SyntaxError, TypeError, LookupError, AttributeError, RecursionError, MemoryError):
        return f'<p class="alert alert-warning">{_NOT_LISTED}</p>'
    filtering = 'type="search" placeholder="Filter" aria-label="Filter this list"'
    search = f'<input class="form-control form-control-sm dc-filter" {filtering}>'
    table = '<table class="table table-sm table-hover dc-list">'
    return f"{search}{table}<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def _part(script: str, name: str) -> str:
    """The line of a script that has the columns, or the data."""
    found = re.search(_PART.format(name), script, re.MULTILINE)
    if found is None:
        raise ValueError(name)
    return found[1]


def _row(row: Mapping[str, Any], fields: list[str], site: str) -> str:
    """The cells of a line of a list, one of which leads to its page; success is a word, not a sign alone."""
    leading = "run_name" if "run_name" in fields else fields[0]
    cells = []
    for field in fields:
        cell = _rewritten(str(row.get(field, "")), site)
        if field == "validation_success":
            cell += escape(str(row.get("_validation_success_text", "")))
        address = str(row.get("_table_row_link_path", ""))
        if field == leading and address and _is_harmless(address):
            cell = f'<a href="{escape(address)}">{cell}</a>'
        cells.append(f"<td>{cell}</td>")
    return "".join(cells)
