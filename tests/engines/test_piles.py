"""Messages reach the task that they name, all in their order, whether they wait in memory or on the disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dc_engine.detection.work import received, send
from dc_engine.engines.base import Here
from dc_engine.errors import ChangesError
from dc_engine.sizes import other_sizes

MESSAGES = st.lists(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=200)), max_size=5), min_size=1, max_size=5)


def sending(messages: list[list[tuple[int, bytes]]], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        for task, content in messages[number]:
            yield send(task, "text", content, number=number)


def hearing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    heard = [f"{one.task} {one.number} {one.payload.to_pybytes().hex()}" for one in received(batches)]
    yield pa.RecordBatch.from_pydict({"document": pa.array(heard, pa.string())})


@given(messages=MESSAGES, held=st.sampled_from([0, 300, 10**9]), threads=st.integers(1, 3))
def test_every_message_reaches_its_task_in_its_order(messages: Any, held: int, threads: int):
    with other_sizes(held_bytes=held):
        found = Here(threads).run(len(messages), lambda batches: sending(messages, batches), (3, hearing))
    sent = [(task, number, content) for number, own in enumerate(messages) for task, content in own]
    expected = [f"{task} {number} {content.hex()}" for task, number, content in sorted(sent, key=lambda one: one[0])]
    assert found == expected


def test_nothing_stays_on_the_disk_when_a_step_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def failing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert list(batches)
        assert list(tmp_path.rglob("dc-messages-*/0"))
        raise ChangesError("It fails.")

    messages = [[(0, b"a" * 100), (0, b"b")]]
    with other_sizes(held_bytes=0), pytest.raises(ChangesError):
        Here().run(1, lambda batches: sending(messages, batches), (1, failing))
    assert not list(tmp_path.iterdir())
