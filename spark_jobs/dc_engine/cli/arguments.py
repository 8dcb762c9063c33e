"""What ``dcgate`` takes: commands, their options, and help for those who use it for the first time."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from dc_engine.table_files import add_options, discovery_options

_ABOUT = """\
Check loads of a table against rules between rows, exactly: "one zip, one city", "who earns more pays no lower rate".

  dcgate discover --table orders.csv --suggest rules.yml      no rules yet? find what holds, and write it down
  dcgate check rules.yml --sample orders.csv                  are the rules written well, do they fit the table?
  dcgate apply --state state/orders --constraints rules.yml --changes orders.csv --load-id 2026-01-01
                                                              check a load against all rows loaded before
  dcgate show 2026-01-01 --state state/orders                 what the check said

The state is a folder, on this machine or an object store, in which dcgate keeps what it needs of earlier loads.
"""
_ENDING = """\
exit codes: 0 the load passes, the command did its work; 1 the load breaks rules (decision fail), verify found
problems, or check found mistakes; 2 an error: what was asked cannot be done, and nothing was changed.

"dcgate COMMAND --help" has the options of a command, with an example.
"""
_EXAMPLES = {
    "check": "dcgate check rules.yml --sample orders.csv",
    "apply": "dcgate apply --state state/orders --constraints rules.yml --changes orders.csv --load-id 2026-01-01\n  "
    'dcgate apply ... --changes day.csv --option sep=";" --schema "id BIGINT, amount DECIMAL(10,2)"\n  '
    "dcgate apply --request load.json --load-id 2026-01-02",
    "show": "dcgate show 2026-01-01 --state state/orders\n  dcgate show 2026-01-01 --state state/orders --json",
    "discover": "dcgate discover --table orders.csv --suggest rules.yml\n  "
    "dcgate discover --state state/orders          what holds in its rows; every load keeps it up from then on",
    "describe": "dcgate describe --state state/orders",
    "verify": "dcgate verify --state state/orders --table orders.parquet",
    "retract": "dcgate retract 2026-01-01 --state state/orders",
    "compact": "dcgate compact --state state/orders",
    "vacuum": "dcgate vacuum --state state/orders --keep-snapshots 30",
    "rebuild": "dcgate rebuild --state state/orders --table orders.parquet",
}
COMMANDS = {
    "check": "check a constraint file, and whether it fits a sample of the table",
    "apply": "check a load against the rules and all rows loaded before, and keep it",
    "show": "show the verdict of a load",
    "discover": "find which rules hold in a table or in a state",
    "describe": "show what is in a state: rules, violations, loads",
    "verify": "check every file of a state, and recount its violations",
    "retract": "take a load out of a state, as if it had never been there",
    "compact": "merge the files of a state",
    "vacuum": "remove files of a state that nobody needs",
    "rebuild": "make the indexes of a state again, from its rows or from the table",
}


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        "dcgate",
        description=_ABOUT,
        epilog=_ENDING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    for name, about in COMMANDS.items():
        one = commands.add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.",
            epilog=f"example:\n  {_EXAMPLES[name]}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        _OPTIONS.get(name, _of_state)(one)
        _of_all(one, spark=name != "show")
    return top


class _Version(argparse.Action):
    """Prints the version of the package; it is looked up by nobody else."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from importlib.metadata import version

        sys.stdout.write(f"dcgate {version('airflow-dc-provider')}\n")
        parser.exit()


def _of_all(one: argparse.ArgumentParser, *, spark: bool) -> None:
    if spark:
        group = one.add_argument_group("Spark (started only when it is needed)")
        group.add_argument("--master", help="the cluster, such as spark://host:7077; else this machine")
        group.add_argument("--remote", metavar="URL", help="a Spark Connect server instead: sc://host:15002")
        group.add_argument(
            "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of the Spark session"
        )
    group = one.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="one JSON document instead of text; errors too")
    group.add_argument("--quiet", action="store_true", help="say nothing of the progress")
    group.add_argument("--debug", action="store_true", help="show all that Spark says, and where an error comes from")


def _of_requests(one: Any, *, state: str = "the folder of the state") -> None:
    one.add_argument("--state", metavar="FOLDER", help=f"{state}, a path or a URI such as s3://lake/dc-state/orders")
    one.add_argument(
        "--request", metavar="FILE", help="the request as a JSON document (- reads standard input); options win over it"
    )
    one.add_argument(
        "--state-options",
        metavar="FILE",
        help="a file with the fsspec options of the state's filesystem, a JSON object; read once and REMOVED",
    )
    waiting = "how long to go on trying while others commit first (3600)"
    one.add_argument("--max-wait-seconds", metavar="S", type=float, help=waiting)


def _of_state(one: argparse.ArgumentParser) -> None:
    _of_requests(one)
    _of_masks(one)


def _of_masks(one: Any) -> None:
    one.add_argument(
        "--mask", action="append", metavar="COLUMN", help="a column whose values are shown nowhere; may be repeated"
    )


def _of_check(one: argparse.ArgumentParser) -> None:
    one.add_argument("rules", metavar="RULES", help="the constraint file")
    one.add_argument("--sample", metavar="FILE", help="a file of the table: do the rules fit its columns and types?")
    one.add_argument("--spark", action="store_true", help="read the sample with Spark, which takes seconds to start")
    add_options(one)


def _of_apply(one: argparse.ArgumentParser) -> None:
    _of_requests(one, state="the folder of this table's state; made by the first load")
    one.add_argument("--load-id", metavar="ID", help="the permanent name of the load, such as its date")
    one.add_argument("--constraints", metavar="RULES", help="the constraint file")
    rows = one.add_argument_group("the rows of the load")
    rows.add_argument("--changes", metavar="FILE", help="a file or a folder; the suffix tells the format")
    add_options(rows)
    more = one.add_argument_group("what to do with it")
    more.add_argument("--rejected-load", choices=("keep", "discard"), help="whether rows of a load that fails stay")
    more.add_argument("--quarantine", metavar="FOLDER", help="write the violating rows and the clean rest there")
    more.add_argument("--missing-deletes", choices=("error", "ignore"), help="a delete of a row that is not there")
    more.add_argument("--duplicate-keys", choices=("error", "replace"), help="an insert of a key that is present")
    more.add_argument("--max-listed", type=int, metavar="N", help="the most violations to list, per rule (10000)")
    more.add_argument("--max-samples", type=int, metavar="N", help="the most examples in the verdict, per rule (20)")
    more.add_argument("--engine", choices=("auto", "spark", "local"), help="where the load is processed (auto)")
    _of_masks(more)


def _of_show(one: argparse.ArgumentParser) -> None:
    one.add_argument("load_id", metavar="LOAD", help="the name of the load")
    one.add_argument("--state", metavar="FOLDER", required=True, help="the folder of the state")
    one.add_argument("--state-options", metavar="FILE", help="see dcgate apply --help")
    _of_masks(one)


def _of_retract(one: argparse.ArgumentParser) -> None:
    one.add_argument("load_id", metavar="LOAD", nargs="?", help="the name of the load")
    _of_state(one)


def _of_discover(one: argparse.ArgumentParser) -> None:
    rows = one.add_argument_group("a table, of which nothing is kept")
    discovery_options(rows, rows)
    kept = one.add_argument_group("a state, which keeps what was found exact with every load")
    _of_requests(kept)
    kept.add_argument("--constraints", metavar="RULES", help="the constraint file, for a state that is not there yet")
    kept.add_argument("--load-id", metavar="ID", help="how a first load of the table is called (initial)")
    _of_masks(one)


def _of_vacuum(one: argparse.ArgumentParser) -> None:
    _of_state(one)
    one.add_argument("--keep-snapshots", type=int, metavar="N", help="how many of the newest snapshots to keep (10)")
    one.add_argument("--grace-hours", type=float, metavar="H", help="leave files younger than this (24)")


def _of_verify(one: argparse.ArgumentParser) -> None:
    _of_table(one)
    one.add_argument("--no-totals", action="store_true", help="do not recount the violations")


def _of_table(one: argparse.ArgumentParser) -> None:
    _of_state(one)
    rows = one.add_argument_group("the table")
    rows.add_argument(
        "--table", metavar="FILE", help="the whole table, a file or a folder; the suffix tells the format"
    )
    add_options(rows)


_OPTIONS = {
    "check": _of_check,
    "apply": _of_apply,
    "show": _of_show,
    "discover": _of_discover,
    "retract": _of_retract,
    "vacuum": _of_vacuum,
    "verify": _of_verify,
    "rebuild": _of_table,
}
