"""Whether dependencies hold in a table whose rows stay with the workers, decided by tasks over ranges of hashes.

Each task reads some rows, and sends what each way needs of them to the task that has their range. That one gives the
values codes of its own, which compare as the values do, looks for pairs that lie in the boxes, and says which rows
they are. Nothing else comes to the driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from dc_engine.detection.codes import codes_of, combine, whole
from dc_engine.detection.comparable import family
from dc_engine.detection.documents import Document, Met, as_batch, failed
from dc_engine.detection.fetched import Columns
from dc_engine.detection.hashing import bucket_of, combined, lanes_of
from dc_engine.detection.rows import ROW_ID, is_in
from dc_engine.detection.work import received, send, tell
from dc_engine.discovery.boxes import Box, said
from dc_engine.discovery.coded import encoded
from dc_engine.discovery.counting import some_pairs, violating_pairs
from dc_engine.discovery.covering import Estimates, Way, ways_of
from dc_engine.discovery.distant import Distant, Reading, Step
from dc_engine.discovery.partitions import Partitions, question_of
from dc_engine.discovery.patterns import Layout
from dc_engine.discovery.removal import rows_to_remove
from dc_engine.discovery.space import Space
from dc_engine.discovery.spreading import Lines, document_of, lines_of
from dc_engine.discovery.table import Table
from dc_engine.errors import DcError
from dc_engine.sizes import SIZES

_BUCKET = "_dc_bucket"
_ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Afar:
    """Decides boxes on the rows of a large table, or (``new``, if given) on their pairs with new rows."""

    space: Space
    nullable: frozenset[str]
    rows: Distant
    estimates: Estimates
    new: pa.Table | None = None
    """Without it all pairs count; with it what is asked is known to hold among the other rows."""
    plainly: bool = False
    """Whether every box is counted by detection, also those that classes of rows would decide in less time."""

    def violating(self, boxes: Sequence[Box]) -> dict[Box, np.ndarray]:
        """For each of some boxes that is not empty the ids of rows that lie in it with another: of some pairs."""
        found = self._met(boxes, counts=False)
        most = max(1, SIZES.shown_rows // (2 * max(len(found), 1)))
        return {box: pairs[:: -(-len(pairs) // most)].ravel() for box, pairs in found.items()}

    def counts(self, boxes: Sequence[Box]) -> list[tuple[int, int]]:
        """How many pairs violate each box, and how many rows have to go for it to be empty, if it is about an order."""
        found = self._met(boxes, counts=True)
        return [tuple(found[box].sum(axis=0).tolist()) if box in found else (0, 0) for box in boxes]

    def _met(self, boxes: Sequence[Box], *, counts: bool) -> dict[Box, np.ndarray]:
        """Of each box the pairs of rows that tasks found in it, or what they counted."""
        terms = self.space.terms(self.nullable)
        together = [[box] for box in boxes] if counts else [boxes]
        ways = [one for some in together for one in ways_of(self.space, terms, some, self.estimates, every=counts)]
        ways = [replace(one, wanted=self._wanted(one)) for one in ways]
        firsts = np.cumsum([0, *(one.buckets for one in ways)]).tolist()
        spread = Spread(self.rows.reading, self.space.columns, tuple(ways), tuple(firsts[:-1]))
        check = Check(self.space, self.nullable, tuple(ways), counts, self.plainly)
        steps: list[tuple[int, Step]] = [(firsts[-1], check)]
        if any(one.ranged for one in ways):  # rows of different ranges meet in a step of their own
            steps = [(firsts[-1], replace(check, firsts=tuple(firsts[:-1]))), *steps]
        found: dict[Box, list[np.ndarray]] = defaultdict(list)
        for met in self.rows.documents(spread, *steps) if ways else ():
            if isinstance(met, Met):
                lines = lines_of(met)
                numbers = lines.patterns[:, 0].astype(np.int64)
                pairs = np.stack([lines.one, lines.two], axis=1)
                for number in np.unique(numbers).tolist():
                    found[ways[met.unit].boxes[number]].append(pairs[numbers == number])
        return {box: np.concatenate(some) for box, some in found.items()}

    def _wanted(self, way: Way) -> np.ndarray | None:
        """The hashes of the keys of new rows: no other can be violated."""
        if self.new is None or not way.key or self.new.num_rows > SIZES.wanted_hashes:
            return None
        return np.unique(_hashes(self.space.columns, self.new, way.key, {}))


Lanes = dict[str, np.ndarray]


def _hashes(types: Mapping[str, str], rows: pa.Table, key: Sequence[str], lanes: Lanes) -> np.ndarray:
    """The hashes of the keys of some rows."""
    for name in key:
        if name not in lanes:
            lanes[name] = lanes_of(whole(rows.column(name)), family(types[name]) or "")
    return combined([lanes[name] for name in key], rows.num_rows)


@dataclass(frozen=True, slots=True)
class Spread:
    """The step that reads rows and sends them, as each way needs them, to the task that has their hashes."""

    reading: Reading
    types: Mapping[str, str]
    ways: tuple[Way, ...]
    firsts: tuple[int, ...]
    """The task that has the first range of each way."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[list[pa.Table]] = [[] for _ in self.ways]
        try:
            columns = [name for name in self.types if any(name in way.columns for way in self.ways)]
            for rows in self.reading(batches, columns):
                lanes, codes = Lanes(), Lanes()
                for place, way in enumerate(self.ways):
                    some = self._chosen(way, rows, lanes, codes)
                    if some.num_rows:
                        waiting[place].append(some)
                    if sum(one.num_rows for one in waiting[place]) > SIZES.share_rows // 2:
                        waiting[place] = self._fewer(way, waiting[place])
                        if sum(one.num_rows for one in waiting[place]) > SIZES.share_rows // 4:
                            yield from self._sent(place, waiting[place])
                            waiting[place] = []
            for place, way in enumerate(self.ways):
                yield from self._sent(place, self._fewer(way, waiting[place]))
        except DcError as error:
            yield tell(failed(error))

    def _chosen(self, way: Way, rows: pa.Table, lanes: Lanes, codes: Lanes) -> pa.Table:
        """The rows that have to travel, with their buckets."""
        hashes = _hashes(self.types, rows, way.key, lanes)
        kept = np.ones(rows.num_rows, bool) if way.wanted is None else is_in(hashes, way.wanted)
        if way.without_null:
            for name in way.key:
                if rows.column(name).null_count:
                    kept &= rows.column(name).is_valid().to_numpy()
        places = np.flatnonzero(kept)
        if way.thins:
            for name in way.columns:
                if name not in codes:
                    codes[name] = self._codes(rows, name)
            places = places[_first_two([codes[name][places] for name in way.columns])]
        some = rows.select([ROW_ID, *way.columns])
        some = some if len(places) == rows.num_rows else some.take(pa.array(places))
        buckets = self._ranges(way, some) if way.ranged else bucket_of(hashes[places], way.buckets)
        return some.append_column(_BUCKET, pa.array(buckets))

    def _ranges(self, way: Way, rows: pa.Table) -> np.ndarray:
        """The range of each row: a NULL comes before all values."""
        kind = family(self.types[way.ranged]) or ""
        edges, codes = codes_of([way.edges, rows.column(way.ranged)], kind, ordered=True)
        return np.searchsorted(edges, codes, side="right")

    def _codes(self, rows: pa.Table, name: str) -> np.ndarray:
        return codes_of([rows.column(name)], family(self.types[name]) or "", ordered=False)[0]

    def _fewer(self, way: Way, waiting: Sequence[pa.Table]) -> list[pa.Table]:
        if not way.thins or len(waiting) < 2:
            return list(waiting)
        rows = pa.concat_tables(waiting).combine_chunks()
        places = _first_two([self._codes(rows, name) for name in way.columns])
        return [rows.take(pa.array(places))]

    def _sent(self, place: int, waiting: Sequence[pa.Table]) -> Iterator[pa.RecordBatch]:
        if not waiting:
            return
        rows = pa.concat_tables(waiting).combine_chunks()
        buckets = whole(rows.column(_BUCKET)).to_numpy()
        rows = rows.drop_columns([_BUCKET])
        if self.ways[place].buckets > 1:
            order = np.argsort(buckets, kind="stable")
            rows, buckets = rows.take(pa.array(order)), buckets[order]
        there, first = np.unique(buckets, return_index=True)
        for bucket, start, end in zip(there.tolist(), first.tolist(), [*first[1:].tolist(), len(buckets)], strict=True):
            some = rows.slice(start, end - start)
            yield send(self.firsts[place] + bucket, _ROWS, some, number=place, unit=bucket)


def _first_two(codes: Sequence[np.ndarray]) -> np.ndarray:
    """The places of the first two rows of those that have the same codes."""
    if not codes:
        return np.arange(0)
    values = combine(codes)
    order = np.argsort(values, kind="stable")
    same = values[order[1:]] == values[order[:-1]]
    third = np.zeros(len(order), bool)
    third[2:] = same[1:] & same[:-1]
    return np.sort(order[~third])


@dataclass(frozen=True, slots=True)
class Check:
    """The step that looks for pairs of rows that lie in boxes, among all rows of a range of hashes; or counts them."""

    space: Space
    nullable: frozenset[str]
    ways: tuple[Way, ...]
    counts: bool
    plainly: bool = False
    firsts: tuple[int, ...] | None = None
    """If rows of several ranges have to meet: the task that has the first range of each way."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        said = _to_driver if self.firsts is None else tell
        parts: dict[tuple[int, int], list[pa.Table]] = defaultdict(list)
        for message in received(batches):
            if message.kind == _ROWS:
                parts[message.number, message.unit].append(message.table)
            else:
                yield said(message.document)
        for (place, _), tables in sorted(parts.items(), key=lambda one: one[0]):
            try:
                for found in self._looked(place, pa.concat_tables(tables)):
                    yield found if isinstance(found, pa.RecordBatch) else said(document_of(place, found))
            except DcError as error:
                yield said(failed(error))

    def _looked(self, place: int, rows: pa.Table) -> Iterator[Lines | pa.RecordBatch]:
        """What was found among rows of a way, and (sent on) those that have to be held against other ranges."""
        way = self.ways[place]
        table, boxes = narrow_table(self.space, self.nullable, way.columns, way.boxes, rows)
        lines = self._found(table, boxes, whole(rows.column(ROW_ID)).to_numpy())
        if len(lines.one):
            yield lines
        if way.ranged and self.firsts is not None:
            some = rows.take(pa.array(_extremes(table, boxes)))
            yield send(self.firsts[place], _ROWS, some.combine_chunks(), number=place)

    def _found(self, table: Table, boxes: Sequence[Box], ids: np.ndarray) -> Lines:
        """The numbers of boxes, each with the ids of two rows, or with two counts."""
        if self.counts:
            numbers = list(range(len(boxes)))
            found = [counts_in(table, box) for box in boxes]
        else:
            pairs = [some_pairs(table, box) for box in boxes] if self.plainly else _pairs(table, boxes)
            numbers = [number for number, (t, _) in enumerate(pairs) for _ in range(len(t))]
            found = [(t, s) for one in pairs for t, s in zip(ids[one[0]].tolist(), ids[one[1]].tolist(), strict=True)]
        one, two = np.array(found, np.int64).reshape(-1, 2).T
        return Lines(np.array(numbers, np.uint64)[:, None], one, two)


def narrow_table(
    space: Space, nullable: frozenset[str], columns: Sequence[str], boxes: Iterable[Box], rows: pa.Table
) -> tuple[Table, list[Box]]:
    """Rows as codes of some columns, and boxes that read no others, in the terms of these."""
    chosen = [name for name in space.columns if name in columns]
    narrow = narrowed(space, chosen)
    terms = narrow.terms(nullable & set(chosen))
    place_of = {(one.left, one.right, one.first): place for place, one in enumerate(space.terms(nullable).terms)}
    places = [place_of[one.left, one.right, one.first] for one in terms.terms]
    coded = encoded(narrow, Columns.of(rows.select(chosen)), np.arange(rows.num_rows))
    return Table.of(Layout(terms), coded.codes), [tuple(box[place] for place in places) for box in boxes]


def _to_driver(document: Document) -> pa.RecordBatch:
    return as_batch([document])


def _extremes(table: Table, boxes: Sequence[Box]) -> np.ndarray:
    """Of each class of rows, for each of some boxes, those with the smallest and the largest value of one column.

    All rows of another range have smaller, or all have larger values of the other column: if any of these violates the
    box with one of those, two such rows do.
    """
    found = [np.zeros(0, np.int64)]
    for box in boxes:
        question = question_of(table.layout.terms, box)
        assert question is not None
        codes = [table.left[place] for place in (*sorted(question.context), *question.columns)]
        rows = np.flatnonzero(np.logical_and.reduce([one >= 0 for one in codes]))
        classes = combine([one[rows].astype(np.int64) for one in codes[:-2]]) if codes[:-2] else np.zeros_like(rows)
        order = np.lexsort((codes[-1][rows], classes))
        apart = np.flatnonzero(np.diff(classes[order])) + 1
        found.append(rows[order[np.unique([0, *(apart - 1), *apart, len(order) - 1])]] if len(order) else order)
    return np.unique(np.concatenate(found))


def narrowed(space: Space, columns: Sequence[str]) -> Space:
    """A space with some of its columns."""
    crossed = tuple(one for one in space.cross if {one.left, one.right} <= set(columns))
    return replace(space, columns={name: space.columns[name] for name in columns}, cross=crossed)


def _pairs(table: Table, boxes: Sequence[Box]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each box some pairs of rows that lie in it, none if it is empty."""
    questions = [question_of(table.layout.terms, box) for box in boxes]
    answers = iter(Partitions(table.left, threads=1).answers([one for one in questions if one]))
    return [
        next(answers) if question else some_pairs(table, box) for question, box in zip(questions, boxes, strict=True)
    ]


def counts_in(table: Table, box: Box) -> tuple[int, int]:
    """How many pairs of rows violate a box, and how many have to go for it to be empty, if it is about an order."""
    question = question_of(table.layout.terms, box)
    ordered = question is not None and question.columns and all((table.left[place] >= 0).all() for place in said(box))
    return violating_pairs(table, box), len(rows_to_remove(table, box)) if ordered else 0
