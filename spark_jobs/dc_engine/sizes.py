"""The sizes at which work, files and lists are cut. They decide memory and speed, and never a result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Sizes:
    """All of them, in one place."""

    # units of work: each has about so much at most
    unit_rows: int = 524_288
    sliced_rows: int = 131_072
    """Rows of one block that are worth a probe of their own."""
    unit_bytes: int = 16 * 2**20
    unit_entries: int = 524_288
    """Stored entries in a unit of a group with a key."""
    share_entries: int = 2_097_152
    share_bytes: int = 256 * 2**20
    """Stored entries in a unit of a group without a key."""
    few_rows: int = 8_192
    few_rows_entries: int = 16_777_216
    """The same with a key, for a load of few rows, which ask for few of them."""
    turn_rows: int = 65_536
    """How many ids at a time go to one probe, for rows that break a constraint alone."""

    # tasks
    encoders: int = 64
    probe_rows: int = 524_288
    probe_bytes: int = 32 * 2**20
    report_rows: int = 1_048_576
    report_constraints: int = 50
    report_range: int = 2**20
    """Ids of rows that go to one report task."""
    check_tasks: int = 256
    """The most tasks among which the files of a state are divided to be verified."""
    range_ids: int = 65_536
    quarantine_rows: int = 2**22
    """How many violating rows, of all rules together, a task of the quarantine looks up."""

    # what is moved and held at once
    message_bytes: int = 2 * 2**20
    """Larger messages would be large objects in the JVM, for which its heap grows."""
    held_bytes: int = 256 * 2**20
    """More bytes of messages between steps in the driver wait on the disk."""
    long_row: int = 256
    """Rows larger than this many bytes, on average, are compressed on their way."""
    long_value: int = 64
    """Byte strings longer than this, on average, are not copied to be coded."""
    hashed_bytes: int = 2**21
    scanned_pairs: int = 40_000_000
    """Up to so many pairs in so many blocks are simply compared."""
    scanned_blocks: int = 2_000
    scanned_at_once: int = 4_000_000
    swept_rows: int = 2**20
    """Up to so many rows, two inequalities are counted without importing numba."""
    screened_entries: int = 16_384
    """In an index of fewer entries, rows are not screened before they are counted."""
    remembered_bytes: int = 192 * 2**20
    """How much of the indexes the driver keeps in memory for the next load of the same session."""

    # discovery
    few_pairs: int = 3_000_000
    """So few pairs of rows are all looked at, without asking which of them matter."""
    counted_pairs: int = 200_000_000
    """Of so many pairs of rows all patterns are counted, unless something else is asked for."""
    counted_price: int = 40
    """What it costs to count the violations of one rule, for each row, in pairs that could be looked at instead."""
    class_price: int = 12
    """The same for a rule that classes of rows decide."""
    key_price: int = 4
    """The same for finding the rows of a key."""
    rows_in_cells: int = 5_000
    """Partners of so few new rows are looked for in cells, instead of counting."""
    cells: int = 64
    """How many cells there are, times the square root of the rows."""
    cell_price: int = 1
    """What it costs to look in cells, as ``counted_price`` has it."""
    exhausted_pairs: int = 100_000_000
    """So many pairs are looked at to meet all patterns of rows that violate something."""
    pattern_runs: int = 8
    """How many files of patterns there may be before a load merges them."""
    past_dependencies: int = 10_000
    """How many dependencies that no longer hold are remembered."""
    pairs_here: int = 8_000_000_000
    """Up to so many pairs of rows (some 2 ns each) are looked at in the driver, in threads; more by Spark's workers."""
    unit_pairs: int = 1_000_000_000
    """About how many of them a task looks at."""
    searched_seconds: int = 5
    """After so long, what a search for rules has not begun may be left to tasks."""
    search_jobs: int = 8
    """In how many jobs tasks of a search are started, so that the log can say how much is done."""
    sent_bytes: int = 256 * 2**20
    """How many bytes of codes these jobs may send to the workers, together."""

    large_cells: int = 32_000_000
    """The rows of a table with more cells stay with the workers: a discovery brings some of them to the driver."""
    load_cells: int = 128_000_000
    """A load has the codes of all rows of a state in the driver, 4 bytes a cell, up to so many: it costs a tenth."""
    sampled_rows: int = 200_000
    """So many rows, and those that violate something that holds among them."""
    share_rows: int = 1_048_576
    """About how many rows of such a table a task reads, and at most how many it holds for each of several keys."""
    thinned_percent: int = 25
    """Rows that are alike do not travel twice where at most this part of them is left then."""
    shown_rows: int = 20_000
    """About how many rows that violate something are brought at a time."""
    wanted_hashes: int = 1_000_000
    """Partners of so many new rows, at most, are looked for by their hashes; those of more among all rows."""

    cover_indexes: int = 8
    """In so many indexes, at most, rows of such a table are found that may violate something with those of a load."""
    looked_up: int = 2_000_000
    """About how many of their entries a load brings to the driver; where there would be more, tasks read the table."""
    usual_load: int = 1_000
    """The rows of a load for which these indexes are chosen."""

    coded_rows: int = 100_000
    """The codes of files with so many rows are kept for the loads to come."""

    # files
    row_group: int = 16_384
    run_group: int = 2_048
    """The most entries in a row group of a run: for each wanted hash a whole one is read."""
    ordered_group: int = 1_024
    """The same in an index without a key: each row of a load reads the one in which it lies."""
    staged_group: int = 65_536
    group_bytes: int = 8 * 2**20
    """The most memory that a row group takes."""
    portion: int = 8 * 2**20
    """How many bytes of a file are held at once, when much of it is read."""
    staged_bytes: int = 128 * 2**20
    widened_rows: int = 1_000_000
    """Rows in a file that gets columns from the table."""
    run_bytes: int = 64 * 2**20
    """About how many bytes of entries, as they are in memory, a file of a run holds at most."""
    runs: int = 16
    """How many runs of an index may hold the same hash before the gate itself merges them."""
    merged_at_once: int = 1_000
    """The most files that the gate merges at a time."""
    merged_entries: int = 524_288
    merged_bytes: int = 64 * 2**20
    """How many entries, and bytes of files, a task merges: in memory they may take several times as much."""
    merged_piece: int = 65_536
    """How many of these entries are added up at once."""
    light_file: int = 16 * 2**20
    """Files of rows that are larger than this are left as they are."""
    merged_files: int = 64 * 2**20
    """How many bytes of files of rows become one."""

    # records and lists
    recent_loads: int = 40
    recent_bytes: int = 48_000
    """How many records of loads, and how many bytes of them, a snapshot holds itself; more go to a file."""
    kept_loads: int = 8
    """How many of the newest then stay in the snapshot."""
    listed_row_ids: int = 100
    """How many ids of rows a listed violation has per side."""
    named_rows: int = 5
    """How many rows an error names."""


SIZES = Sizes()


@contextmanager
def other_sizes(**others: int) -> Iterator[None]:
    """Other sizes for a while, in this process: so small ones that a handful of rows is cut as millions are."""
    before = asdict(SIZES)
    try:
        for name, size in others.items():
            setattr(SIZES, name, size)
        yield
    finally:
        for name, size in before.items():
            setattr(SIZES, name, size)
