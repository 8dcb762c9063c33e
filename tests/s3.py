"""An S3 server for tests: moto in a thread of this process, which other processes reach over HTTP."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Response

REGION = "us-east-1"


@dataclass
class S3Server:
    """A running server with one bucket. It turns away every access key but the one of ``options``."""

    endpoint: str
    bucket: str
    key: str
    secret: str
    heeds_conditions: bool = True
    """Whether If-None-Match is honoured, or ignored as some servers do."""
    answers: list[tuple[int, str]] = field(default_factory=list)
    """Statuses and codes of errors with which the next conditional writes are answered, and not done."""
    lost: int = 0
    """How many of the next conditional writes are done, and answered with an error all the same."""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """What was asked so far: method, path and range."""

    @property
    def options(self) -> dict[str, Any]:
        """The options of a ``Storage`` on this server."""
        return {
            "key": self.key,
            "secret": self.secret,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": REGION},
        }

    def uri(self) -> str:
        """The URI of a folder that nobody else uses."""
        return f"s3://{self.bucket}/{uuid.uuid4().hex}"


class _Front:
    """Stands before moto, which lets everybody in and does not create exclusively when asked by several at once."""

    def __init__(self, server: S3Server) -> None:
        self._server = server
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._one_at_a_time = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        server = self._server
        server.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("HTTP_RANGE", "")))
        if f"Credential={server.key}/" not in environ.get("HTTP_AUTHORIZATION", ""):
            return _error(403, "InvalidAccessKeyId")(environ, start_response)
        if environ["REQUEST_METHOD"] != "PUT" or "HTTP_IF_NONE_MATCH" not in environ:
            return self._moto(environ, start_response)
        if not server.heeds_conditions:
            del environ["HTTP_IF_NONE_MATCH"]
        with self._one_at_a_time:
            if server.answers:
                return _error(*server.answers.pop(0))(environ, start_response)
            if server.lost:
                server.lost -= 1
                Response.from_app(self._moto, environ)
                return _error(500, "InternalError")(environ, start_response)
            return list(self._moto(environ, start_response))


def _error(status: int, code: str) -> Response:
    document = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>The server says {code}.</Message></Error>"
    return Response(document, status, content_type="application/xml")


class _Quiet(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server on a free port, with an empty bucket of its own."""
    server = S3Server("", f"states-{uuid.uuid4().hex}", f"KEY{uuid.uuid4().hex}", f"secret/{uuid.uuid4().hex}")
    http = make_server("127.0.0.1", 0, _Front(server), threaded=True, request_handler=_Quiet)
    server.endpoint = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        boto3.client(
            "s3",
            endpoint_url=server.endpoint,
            region_name=REGION,
            aws_access_key_id=server.key,
            aws_secret_access_key=server.secret,
        ).create_bucket(Bucket=server.bucket)
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
