"""A mail server for tests, in this process; others reach it over SMTP."""

from __future__ import annotations

import email
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from aiosmtpd.controller import Controller


@dataclass
class Mailbox:
    """A running server, and what it was sent."""

    port: int
    mails: list[Message] = field(default_factory=list)

    @property
    def connection(self) -> dict[str, Any]:
        """Airflow's connection to it."""
        extra = {"disable_ssl": True, "disable_tls": True, "from_email": "airflow@example.com"}
        return {"conn_type": "smtp", "host": "127.0.0.1", "port": self.port, "extra": extra}

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Take a mail, as aiosmtpd hands it over."""
        self.mails.append(email.message_from_bytes(envelope.content))
        return "250 OK"


def body(mail: Message) -> str:
    """The text of a mail."""
    (part,) = [one for one in mail.walk() if one.get_content_maintype() == "text"]
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode()


@contextmanager
def mailbox() -> Iterator[Mailbox]:
    """A server on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        box = Mailbox(probe.getsockname()[1])
    server = Controller(box, hostname="127.0.0.1", port=box.port)
    server.start()
    try:
        yield box
    finally:
        server.stop()
