"""Data Docs as Airflow serves them: only what the task recorded, only files of a site, pages that say what is wrong."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import unquote, urljoin

import fsspec
import pytest
from starlette.testclient import TestClient

from airflow_dc_provider.pages import access, data_docs, patience
from airflow_dc_provider.pages.access import Recorded
from airflow_dc_provider.pages.app import pages
from tests.s3 import REGION, s3_server

SITE = Path("uncommitted", "data_docs", "local_site")
TASK = "/docs/tax/data_docs/manual__2026-01-01/-1/"
PAGE = "validations/dcgate/tax/monday_v1/20260101T000000.000000Z/dcgate.tax-tax.html"
HTML = "<!DOCTYPE html><html><head><title>Data Docs</title></head><body><p>all is well</p></body></html>"


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """The folder of a context with a page and some other files of its site."""
    files = {PAGE: HTML, "index.html": HTML, "static/images/logo-long.png": "png", "static/styles/a.css": "p {}"}
    for name, text in files.items():
        file = tmp_path / "gx" / SITE / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "gx"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., TestClient]]:
    """The pages for one who may see all, and a task that recorded what is given; rights are tested elsewhere."""

    def build(docs: Any, *, known: bool = True) -> TestClient:
        app = pages()
        app.dependency_overrides[access._readable_dag] = lambda dag_id: dag_id
        app.dependency_overrides[access.signed_in] = lambda: None
        monkeypatch.setattr(data_docs, "recorded_by", lambda *ids: Recorded(*ids, docs=docs) if known else None)
        return TestClient(app, follow_redirects=False, raise_server_exceptions=True)

    return build


def recorded(context: Path | str, page: str = PAGE, conn_id: str | None = None) -> dict[str, Any]:
    return {"folder": str(context), "docs_conn_id": conn_id, "page": page}


def asked(app: Any, path: str) -> tuple[int, str]:
    """The answer of an app to a path as a server passes it on: a client would have tidied it."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "server": ("host", 80)}
    asyncio.run(app({**scope, "path": unquote(path), "query_string": b"", "headers": []}, receive, send))
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent).decode()


class TestAFile:
    def test_without_a_path_the_page_of_the_run_is_found(self, client, context):
        answer = client(recorded(context)).get(TASK)
        assert answer.status_code == 302
        assert answer.headers["location"] == PAGE
        assert urljoin(f"http://host/base/dc{TASK}", PAGE) == f"http://host/base/dc{TASK}{PAGE}"

    def test_a_page_needs_nothing_from_elsewhere(self, client, context):
        reached = client(recorded(context))
        answer = reached.get(TASK + PAGE)
        assert answer.status_code == 200
        assert "all is well" in answer.text
        named = re.findall(r'(?:href|src)="([^"]+)"', answer.text)
        assert len(named) == 4
        for one in named:
            found = reached.get(urljoin(TASK + PAGE, one))
            assert found.status_code == (404 if one.endswith("favicon.ico") else 200), one

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("index.html", "text/html; charset=utf-8"),
            ("static/images/logo-long.png", "image/png"),
            ("static/styles/a.css", "text/css; charset=utf-8"),
        ],
    )
    def test_it_says_what_it_is(self, client, context, path, kind):
        answer = client(recorded(context)).get(TASK + path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
        assert answer.headers["x-content-type-options"] == "nosniff"

    def test_nothing_runs_on_a_page_but_our_script(self, client, context):
        reached = client(recorded(context))
        policies = set()
        for _ in range(2):
            answer = reached.get(TASK + PAGE)
            policy = answer.headers["content-security-policy"]
            (nonce,) = re.findall("script-src 'nonce-([^' ]+)'", policy)
            assert re.findall("<script[^>]*>", answer.text) == [
                f'<script nonce="{nonce}" src="../../../../../../../../../../static/docs.js" defer>'
            ]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'self'" in policy
            policies.add(policy)
        assert len(policies) == 2, "a nonce is used once"
        assert "sandbox" in reached.get(TASK + "static/images/logo-long.png").headers["content-security-policy"]

    def test_the_context_may_be_named_as_a_uri_or_through_a_link(self, client, context, tmp_path):
        assert client(recorded(f"file://{context}")).get(TASK + "index.html").status_code == 200
        (tmp_path / "named").symlink_to(context)
        assert client(recorded(tmp_path / "named")).get(TASK + "index.html").status_code == 200

    def test_it_may_be_on_s3_with_the_credentials_of_the_connection(self, client, monkeypatch):
        with s3_server() as server:
            extra = {"endpoint_url": server.endpoint, "region_name": REGION}
            connection = {"conn_type": "aws", "login": server.key, "password": server.secret, "extra": extra}
            monkeypatch.setenv("AIRFLOW_CONN_QUALITY", json.dumps(connection))
            uri = server.uri()
            options = {"key": server.key, "secret": server.secret, "endpoint_url": server.endpoint}
            filesystem = fsspec.filesystem("s3", **options)
            filesystem.pipe_file(f"{uri}/gx/{SITE}/{PAGE}", HTML.encode())
            reached = client(recorded(f"{uri}/gx", conn_id="quality"))
            assert "all is well" in reached.get(TASK + PAGE).text
            assert reached.get(TASK + "index.html").status_code == 404
            refused = client(recorded(f"{uri}/gx")).get(TASK + PAGE)
            assert refused.status_code == 502
            assert server.secret not in refused.text


class TestOutside:
    """What is not a file of the site is not there, whatever names it."""

    @pytest.mark.parametrize(
        "path",
        [
            "../secret.html",
            "%2e%2e/secret.html",
            "..%2fsecret.html",
            "%252e%252e%252fsecret.html",
            "static/../../../../secret.html",
            "static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/secret.html",
            "..\\..\\..\\secret.html",
            "..%5c..%5c..%5csecret.html",
            "%2fetc%2fhostname.html",
            "/etc/hostname.html",
            "//etc/hostname.html",
            "./index.html",
            "%2e/index.html",
            "static//images/logo-long.png",
            "index.html%00.png",
            "%00index.html",
            ".hidden.html",
            "file:///etc/hostname.html",
            "link.html",
            "linked/secret.html",
            "loop.html",
            "static/images",
            "static/images/",
            "folder.html",
            "page.js",
            "page.json",
            "page",
            "page.html.",
            "%0aindex.html",
            "*.html",
            "inde[x].html",
            "pipe.html",
        ],
    )
    def test_it_is_not_found(self, client, context, tmp_path, path):
        site = context / SITE
        for place in (tmp_path, context, site.parent, site.parent.parent):
            (place / "secret.html").write_text("secret")
        for name in ("page.js", "page.json", "page", ".hidden.html", "page.html."):
            (site / name).write_text("secret")
        (site / "link.html").symlink_to(tmp_path / "secret.html")
        (site / "linked").symlink_to(tmp_path)
        (site / "loop.html").symlink_to(site / "loop.html")
        (site / "folder.html").mkdir()
        os.mkfifo(site / "pipe.html")
        status, text = asked(client(recorded(context)).app, f"{TASK}{path}")
        assert status == 404
        assert "secret" not in text

    @pytest.mark.parametrize("task", ["/docs/tax/a%00b/run/-1/", "/docs/tax/a/b%00/-1/", "/docs/tax/a/b/99999999999/"])
    def test_what_no_database_holds_is_not_asked_of_one(self, client, context, task):
        assert asked(client(recorded(context)).app, f"{task}index.html")[0] == 422

    def test_a_link_within_the_site_is_followed(self, client, context):
        (context / SITE / "latest.html").symlink_to(context / SITE / PAGE)
        assert client(recorded(context)).get(TASK + "latest.html").status_code == 200

    def test_a_site_that_is_itself_a_link_to_elsewhere_is_not(self, client, tmp_path):
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "index.html").write_text("secret")
        forged = tmp_path / "forged"
        (forged / SITE).parent.mkdir(parents=True)
        (forged / SITE).symlink_to(tmp_path / "other")
        assert client(recorded(forged)).get(TASK + "index.html").status_code == 404

    @pytest.mark.parametrize(
        "page", ["../x.html", "//elsewhere.example/x.html", "https://elsewhere.example/x.html", ""]
    )
    def test_what_is_recorded_leads_nowhere_else(self, client, context, page):
        assert client(recorded(context, page)).get(TASK).status_code == 404

    def test_a_page_that_looks_like_an_address_stays_below(self, client, context):
        answer = client(recorded(context, "https:elsewhere.html")).get(TASK)
        assert urljoin(f"http://testserver{TASK}", answer.headers["location"]).startswith(f"http://testserver{TASK}")

    @pytest.mark.parametrize(
        "folder",
        ["/", "etc", "http://127.0.0.1:1/x", "github://org:repo@/x", "simplecache::http://x", "/a\0b", 7, None],
    )
    def test_no_other_folder_is_read(self, client, folder):
        answer = client({"folder": folder, "docs_conn_id": None, "page": PAGE}).get(TASK + "index.html")
        assert answer.status_code in (404, 502)
        assert "<h1>" in answer.text


class TestNothingToSee:
    def told(self, answer: Any) -> str:
        return " ".join(re.sub("<[^>]*>", " ", answer.text.partition("<main>")[2]).split())

    def test_no_such_task_instance(self, client, context):
        answer = client(recorded(context), known=False).get(TASK + PAGE)
        assert (answer.status_code, "no such task instance" in self.told(answer)) == (404, True)

    @pytest.mark.parametrize("path", ["", PAGE])
    def test_a_task_that_recorded_none(self, client, path):
        reached = client({})
        answer = reached.get(TASK + path)
        assert answer.status_code == 404
        assert self.told(answer).startswith("No Data Docs here")
        (style,) = re.findall('stylesheet" href="([^"]+)"', answer.text)
        assert reached.get(urljoin(TASK + path, style)).status_code == 200

    def test_a_page_that_was_pruned(self, client, context):
        answer = client(recorded(context)).get(TASK + PAGE.replace("monday", "sunday"))
        assert answer.status_code == 404
        assert "keep_runs" in self.told(answer)
        assert "Clear the task" in self.told(answer)

    def test_a_folder_that_the_server_does_not_see(self, client, tmp_path):
        answer = client(recorded(tmp_path / "<b>gone</b>")).get(TASK + PAGE)
        assert answer.status_code == 502
        assert self.told(answer).startswith("Data Docs cannot be read")
        assert "&lt;b&gt;gone" in answer.text
        assert "Give the API server access" in self.told(answer)

    def test_a_connection_that_is_not_there(self, client):
        answer = client(recorded("s3://lake/quality", conn_id="lost")).get(TASK + PAGE)
        assert answer.status_code == 502
        assert "no Airflow connection 'lost'" in self.told(answer).replace("&#39;", "'")

    def test_a_folder_that_hangs(self, client, context, monkeypatch):
        back = Event()
        monkeypatch.setattr(patience, "SECONDS", 0.05)
        monkeypatch.setattr(data_docs._Site, "read", lambda *_: back.wait())
        answer = client(recorded(context)).get(TASK + PAGE)
        assert answer.status_code == 502
        assert "did not answer within" in self.told(answer)
        back.set()

    def test_a_file_that_is_too_large(self, client, context, monkeypatch):
        monkeypatch.setattr(data_docs, "MOST_BYTES", len(HTML) - 1)
        answer = client(recorded(context)).get(TASK + PAGE)
        assert answer.status_code == 413
        assert "is larger than" in self.told(answer)
