"""What tasks tell the driver comes back as it was told; what nobody knows is an error."""

from __future__ import annotations

import json

import pytest

from dc_engine.detection.documents import (
    Checked,
    Deleted,
    Document,
    Effect,
    Failed,
    Found,
    Listed,
    Pairs,
    SkippedRows,
    Spent,
    TakenKeys,
    ViolatingRows,
    Written,
    failed,
    file_of,
    from_text,
    to_text,
)
from dc_engine.errors import ConflictError, StateError
from dc_engine.maintained.judging import add_up
from dc_engine.state.files import DataFile, FileKind

FILE = DataFile("index/1.parquet", FileKind.INDEX, "abc", 1, 10, "00ff", 3, bounds=(-5, 7))
DOCUMENTS: list[Document] = [
    Failed("StateError", "It is gone.", "Look for it."),
    Pairs(2, Effect.AWAY, 3, 4),
    ViolatingRows(0, 2, [{"row_id": 1, "violations": 9}], FILE),
    Listed(1, [{"t": {"values": {"zip": None}}}], None),
    Listed(1, [], FILE),
    Spent(0.5, 0.25, 0.0),
    TakenKeys(1, 2, 0, [{"id": 3}], [7]),
    Deleted(FILE, 1, 0, 2, [{"id": 3}]),
    Written(FILE),
    Found(FILE, 2),
    Checked("index", "abc", 1, 2, ["It is gone."]),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: type(one).__name__)
def test_a_document_comes_back_as_it_was_told(document):
    assert from_text(to_text(document)) == document


def test_pairs_of_numbers_come_back_as_pairs():
    skipped = from_text(to_text(SkippedRows([(0, 5), (1, 0)])))
    assert isinstance(skipped, SkippedRows)
    assert dict(skipped.rows) == {0: 5, 1: 0}


@pytest.mark.parametrize("unknown", ["Surprise", "", None])
def test_a_document_that_nobody_knows_is_an_error(unknown):
    with pytest.raises(AssertionError, match="unknown document"):
        from_text(json.dumps({"document": unknown, "rows": 3}))


def test_a_document_that_a_check_does_not_wait_for_is_an_error():
    with pytest.raises(AssertionError, match="nobody waits for"):
        add_up([Checked("index", "abc")], 1)


def test_an_error_of_a_task_is_raised_as_what_it_was():
    error = failed(ConflictError("Another was first.", hint="Run it again.")).error
    assert type(error) is ConflictError
    assert (error.message, error.hint) == ("Another was first.", "Run it again.")
    assert isinstance(error, StateError)


def test_documents_name_the_files_that_go_when_the_work_fails():
    assert [file_of(one) for one in DOCUMENTS if file_of(one)] == [FILE] * 5
