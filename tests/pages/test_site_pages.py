"""Pages of Data Docs, taken apart and put together: nothing foreign or that runs, and all that people read."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_dc_provider.pages.site_pages import served


def shown(body: str, site: str = "../") -> str:
    """What becomes of the body of a page."""
    page = served(f"<!DOCTYPE html><html><head></head><body>{body}</body></html>", up="", site=site, nonce="n")
    return page.partition("<body>")[2].removesuffix("</body></html>")


class _Reader(HTMLParser):
    """The elements with their attributes, and the text, as a browser would find them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


KEPT = [
    "<p>plain</p>",
    '<td class="a b" colspan="2"><code>t.a &lt; s.b &amp; &#39;x&#39;</code></td>',
    '<a href="../index.html#top">Home</a><a href="https://greatexpectations.io">GX</a>',
    '<div style="max-height: 75vh" data-toggle="collapse" aria-expanded="false">x</div>',
    '<img src="static/images/a.png" alt="a">',
    "<b>ä 中 \U0001f600</b>",
]
GONE = [
    "<script>alert(1)</script>",
    "<script src=//evil.example/x.js></script>",
    "<script/>alert(1)</script>",
    "<SCRIPT\n>alert(1)</SCRIPT\n>",
    "<iframe src=x></iframe><object data=x></object><embed src=x>",
    "<svg><script>alert(1)</script></svg>",
    "<!-- <script> --><?php x ?><![CDATA[ <b> ]]>",
    '<button onclick="alert(1)">Clear Filters</button>',
    "<footer>Stay current on everything <a href='https://x.example'>Subscribe</a></footer>",
    '<meta http-equiv="refresh" content="0;url=https://evil.example">',
    '<link rel="stylesheet" href="https://evil.example/x.css"><base href="https://evil.example/">',
    '<img src="https://evil.example/x.png"><img src="//evil.example/x.png"><img src="javascript:alert(1)">',
]
HARMLESS = [
    ('<p onclick="alert(1)" ONMOUSEOVER=alert(1)>x</p>', "<p>x</p>"),
    ('<a href="javascript:alert(1)">x</a>', "<a>x</a>"),
    ('<a href=" java&#10;script&colon;alert(1)">x</a>', "<a>x</a>"),
    ('<a href="data:text/html,x">x</a><a href="vbscript:x">y</a>', "<a>x</a><a>y</a>"),
    ("<p style=\"background: url( 'https://evil.example/x.png' ) red\">x</p>", '<p style="background: none red">x</p>'),
    ("<form action=/auth/logout><input name=x></form>", '<input name="x">'),
    ("<marquee>x</marquee>", "x"),
    ("1 < 2 <3> & &lt;", "1 &lt; 2 &lt;3&gt; &amp; &lt;"),
]
LOGO = "https://great-expectations-web-assets.s3.us-east-2.amazonaws.com/logo-long.png?d=1&dataContextId=2"


class TestOnePiece:
    @pytest.mark.parametrize("text", KEPT)
    def test_what_people_read_stays(self, text):
        before, after = _Reader(text), _Reader(shown(text))
        assert (after.elements, after.text) == (before.elements, before.text)

    @pytest.mark.parametrize("text", GONE)
    def test_what_runs_or_fetches_goes(self, text):
        assert shown(f"<p>a</p>{text}<p>b</p>") == "<p>a</p><p>b</p>"

    @pytest.mark.parametrize(("before", "after"), HARMLESS)
    def test_what_is_not_known_loses_its_meaning(self, before, after):
        assert shown(before) == after

    def test_the_logo_is_the_one_of_the_site(self):
        assert shown(f'<img src="{LOGO}" alt="GX"/>') == '<img src="../static/images/logo-long.png" alt="GX">'

    def test_a_graph_is_said_not_to_be_drawn(self):
        assert "is not shown here" in shown("<div id=g></div><script>vegaEmbed('#g', {})</script>")

    def test_styles_of_the_page_stay_and_fetch_nothing(self):
        style = "p > a { background: url('https://evil.example/a.png') } @import url(//evil.example/b.css);"
        page = served(f"<head><style>{style}</style></head>", up="", site="", nonce="n")
        assert "<style>p > a { background: none } @import none;</style>" in page

    @given(st.lists(st.sampled_from([*KEPT, *GONE, *(one for one, _ in HARMLESS), "<", ">", '"', "'", "&", "</", "x"])))
    def test_whatever_comes_together_nothing_runs(self, pieces):
        for tag, attributes in _Reader(shown("".join(pieces))).elements:
            assert tag not in ("script", "iframe", "object", "embed", "svg", "meta", "link", "base", "form")
            assert not [name for name in attributes if name.startswith("on") or name in ("srcdoc", "action")]
            for name in ("href", "src"):
                assert "script:" not in (attributes.get(name) or "")
            assert not (attributes.get("src") or "").startswith(("http", "//"))

    @given(st.text())
    def test_text_stays_text(self, text):
        found = _Reader(shown(text.replace("&", "&amp;").replace("<", "&lt;")))
        assert found.elements == []
        assert found.text == text.replace("\x00", "�") or found.text == text


def listing(columns: object, rows: object) -> str:
    """The start page's script for a list, as Great Expectations writes it."""
    return f"""<table id="s-body-table" class="table-sm" data-toggle="table">
</table><script>
  $('#s-body-table').bootstrapTable(
    Object.assign(
      {{
        columns: {columns},
        data: {rows},
        toolbar: '#s-toolbar'
      }},
      {{'search': 'true'}}
    )
  );
</script>"""


COLUMNS = [{"field": "validation_success", "title": "Status"}, {"field": "run_name", "title": "Run"}]


class TestAList:
    def test_it_is_a_table_with_a_link_in_each_row(self):
        icon = '<i class="fas fa-times" onclick="x"></i>'
        row = {"validation_success": icon, "run_name": "monday_v1", "_validation_success_text": "Failed"}
        found = shown(listing(COLUMNS, [{**row, "_table_row_link_path": "validations/a.html"}]))
        assert found.count("<table") == 1
        assert '<th scope="col">Status</th><th scope="col">Run</th>' in found
        cells = '<td><i class="fas fa-times"></i>Failed</td><td><a href="validations/a.html">monday_v1</a></td>'
        assert f"<tbody><tr>{cells}</tr></tbody>" in found

    @pytest.mark.parametrize("attack", ["<img src=x onerror=x></td><p>", "</script><script>alert(1)</script>"])
    def test_nothing_in_it_runs(self, attack):
        row = {"run_name": attack, "validation_success": attack, "_table_row_link_path": "javascript:x"}
        columns = [{"field": "run_name", "title": attack}]
        found = _Reader(shown(listing(columns, [{**row, "_validation_success_text": attack}])))
        assert {tag for tag, _ in found.elements} <= {"input", "table", "thead", "tbody", "tr", "th", "td", "img", "p"}
        assert {name for _, attributes in found.elements for name in attributes} <= {
            *("type", "class", "placeholder", "aria-label", "scope", "src")
        }

    @pytest.mark.parametrize(
        ("columns", "rows"),
        [
            ("new Columns()", []),
            (COLUMNS, "[open('/etc/passwd')]"),
            (COLUMNS, "[" * 9999 + "]"),
            ([1], [2]),
            ([], [{}]),
        ],
        ids=["code", "call", "deep", "numbers", "empty"],
    )
    def test_what_is_not_understood_is_said(self, columns, rows):
        assert '<p class="alert alert-warning">This list cannot be shown here' in shown(listing(columns, rows))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from airflow_dc_provider.checkpoints.export import export_checkpoint
    from tests.checkpoints.hostile import hostile
    from tests.checkpoints.verdicts import verdict

    folder = tmp_path_factory.mktemp("quality")
    export_checkpoint(verdict(broken={"zip_decides_city": 1234}), folder)
    export_checkpoint(verdict("tuesday", 2), folder)
    export_checkpoint(hostile(), folder)
    return folder / "gx" / "uncommitted" / "data_docs" / "local_site"


@pytest.mark.xdist_group("gx")
class TestRealPages:
    """What the installed version of Great Expectations writes."""

    def test_all_text_but_advertising_is_kept_and_nothing_is_foreign(self, site):
        files = [path for path in site.rglob("*.html") if path.name != "index.html"]
        assert len(files) == 5, "three runs, two suites"
        for file in files:
            before = file.read_text()
            after = served(before, up="U/", site="S/", nonce="n")
            assert re.findall("<script[^>]*>", after) == ['<script nonce="n" src="U/static/docs.js" defer>']
            assert not re.findall(r"""(?:src=["']|url\(["']?)(?:https?:)?//""", after)
            assert re.findall(r"<link[^>]*href=\"(?![US]/)", after) == []
            assert read(after) == read(before)

    def test_the_start_page_lists_the_runs_and_the_suites(self, site):
        page = served((site / "index.html").read_text(), up="U/", site="", nonce="n")
        found = [
            attributes["href"] for tag, attributes in _Reader(page).elements if tag == "a" and attributes.get("href")
        ]
        files = {str(path.relative_to(site)) for path in site.rglob("*.html") if path.name != "index.html"}
        assert files <= set(found)
        assert page.count('<table class="table table-sm table-hover dc-list">') == 2
        assert "Failed" in page
        assert "Success" in page


def read(page: str) -> str:
    """What people read on a page, but for what it advertises."""
    body = re.sub(r"<(script|footer|style)\b.*?</\1>", "", page.partition("<body")[2], flags=re.DOTALL)
    return " ".join(_Reader(body).text.split())
