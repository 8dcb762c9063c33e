"""A job on a Spark Connect server: its driver is this process alone, without a JVM, and takes nothing for granted.

A server goes on with what it was asked for when its client is gone. So a session is released when the job ends, however
it ends: by itself, with an error, by SIGTERM, or because the process that has started it is gone.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dc_engine.errors import RequestError, SparkError
from dc_engine.masking import told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 30
"""For how many seconds a server may not answer. PySpark itself would try for ten minutes."""
_ENDED = 128 + signal.SIGTERM
_LOOK = 1.0
"""Every so many seconds a driver looks whether its parent is still there."""


@dataclass(frozen=True, slots=True)
class Server:
    """A Spark Connect server, and what a job asks of its session. The address may hold a token, so it is not shown."""

    remote: str = field(repr=False)
    """``sc://host:port``, with parameters as Spark defines them."""
    conf: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Server:
        """From a document."""
        remote, conf = given.get("remote"), given.get("conf", {})
        if not isinstance(remote, str) or not isinstance(conf, Mapping):
            raise RequestError(
                "'remote' must be the address of a Spark Connect server, and 'conf' an object.",
                hint='For instance {"remote": "sc://host:15002", "conf": {"spark.sql.shuffle.partitions": "8"}}.',
            )
        return cls(remote, conf)

    def session(self, name: str) -> SparkSession:
        """A session of the job's own, with the settings that it asks for."""
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        endpoint = self._wait()
        try:
            session = SparkSession.builder.remote(self.remote).appName(name).getOrCreate()
            _ = session.version  # the first answer: whether it takes the token, too
        except PySparkException as error:
            raise SparkError(
                f"The Spark Connect server at {endpoint} refuses the session: {_said(error)}",
                hint="In Airflow the connection's password is the token, its login the user, and use_ssl in its extra "
                "turns TLS on.",
            ) from None
        for key, value in self.conf.items():
            try:
                session.conf.set(key, value)
            except PySparkException as error:
                session.stop()
                raise SparkError(
                    f"The Spark Connect server at {endpoint} does not take the setting '{key}': {_said(error)}",
                    hint="A session may have settings of Spark SQL; all others are set where the server is started.",
                ) from None
        return session

    def _wait(self) -> str:
        """Its host and port, once it answers."""
        import grpc  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.sql.connect.client.core import DefaultChannelBuilder

        try:
            builder = DefaultChannelBuilder(self.remote)
        except (PySparkException, ValueError):  # a port that is no number, too; both quote the token
            raise RequestError(
                "The address of the Spark Connect server cannot be understood.",
                hint="It has the form sc://HOST:PORT/;name=value;..., with no path.",
            ) from None
        with builder.toChannel() as channel:
            try:
                grpc.channel_ready_future(channel).result(timeout=PATIENCE)
            except grpc.FutureTimeoutError:
                raise SparkError(
                    f"There is no Spark Connect server at {builder.endpoint}: nothing answered for {PATIENCE} seconds.",
                    hint="Is it running, and is this its port (15002 unless it was told otherwise)? Does it use TLS? "
                    "Then use_ssl=true.",
                ) from None
        return str(builder.endpoint)


def _said(error: Exception) -> str:
    """What a server says; of an error of the connection, PySpark's own text has it in the middle."""
    details = re.search(r'details = "(.*?)"\n', str(error))
    return f"{details[1]}." if details else told(error)


def ends_with_sigterm(release: Callable[[], None], parent: int | None = None) -> None:
    """Call ``release`` when this process is told to end, and then end it, whatever else it is doing.

    Or when ``parent``, which has started it, is gone: nobody waits for what it does.

    A thread does so, which hears of the signal through a pipe. A handler would run in the main thread: not before a
    long calculation is over, or in the middle of the very call that holds what releasing needs.
    """
    heard, told_to = os.pipe()
    os.set_blocking(told_to, False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(told_to, warn_on_full_buffer=False)

    def wait() -> None:
        patience = None if parent is None else _LOOK
        while parent is None or os.getppid() == parent:
            if select.select([heard], [], [], patience)[0] and os.read(heard, 1)[0] == signal.SIGTERM:
                break
        try:
            release()
        finally:
            os._exit(_ENDED)

    threading.Thread(target=wait, name="sigterm", daemon=True).start()


def release(remote: str) -> None:
    """End the session that an address names, and all that the server does for it: its own driver was killed."""
    from pyspark.sql.connect.client import SparkConnectClient

    client = SparkConnectClient(remote)
    client.release_session()
    client.close()


if __name__ == "__main__":
    release(sys.stdin.read())  # and not an argument, which everybody sees: it may hold a token
