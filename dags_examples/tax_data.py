"""A generated tax table: 16 columns, consistent with ``constraints/tax.yml`` unless told to break some rules.

Vectorised: a million rows take seconds. Seed and first id choose where people live and what they earn;
everything that a rule relates (zip and city, state and exemption, salary and rate, id and telephone number)
is a fixed function, the same for every load.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa


def _words(text: str) -> list[str]:
    return text.split()


STATES = _words(
    "AK AL AR AZ CA CO CT DE FL GA HI IA ID IL IN KS KY LA MA MD ME MI MN MO MS "
    "MT NC ND NE NH NJ NM NV NY OH OK OR PA RI SC SD TN TX UT VA VT WA WI WV WY"
)
ZIPS_A_STATE = 600
SALARIES_A_STATE = 14_400
LOWEST_SALARY, SALARY_STEP = 5_000, 10
FIRST_NAMES = _words("Ada Alan Barbara Carl David Edgar Emmy Frances Grace Henri Kurt Leslie Mary Niels Sofia")
LAST_NAMES = _words(
    "Adams Baker Clark Codd Davis Evans Foster Garcia Hill Irwin Jones Keller Lopez Moore Nash Ortiz Perry "
    "Quinn Reed Silva Turner Unger Vance Walker Young Zhang"
)
_CITY_STARTS = _words("Ash Bay Cedar Clear Deer East Fair Glen High Iron Kings Lake Maple New North Oak Port")
_CITY_ENDS = _words("ton ville field burg wood ford haven mont dale side view")

# A factor coprime to the number of telephone numbers makes id -> number one to one.
_PHONES_AN_AREA = 10_000_000
_NUMBERS = 800 * _PHONES_AN_AREA
_SPREAD = 3_141_592_657

RULES = (
    "phone_is_unique",
    "zip_decides_city",
    "child_exemption_by_state",
    "rate_follows_salary",
    "salary_is_positive",
)
UNWRITTEN = ("single_exemption_by_state",)
"""What holds in the table although no rule says so, and can be broken too."""


def tax_table(rows: int, *, seed: int = 0, first_id: int = 1, broken: Mapping[str, int] | None = None) -> pa.Table:
    """``rows`` people with ids from ``first_id`` on; ``broken`` says how many of them break which rule."""
    random = np.random.default_rng([seed, first_id])
    ids = np.arange(first_id, first_id + rows, dtype=np.int64)
    zips = random.integers(0, len(STATES) * ZIPS_A_STATE, rows)
    step = random.integers(0, SALARIES_A_STATE, rows)
    has_child = random.random(rows) < 0.4
    married = random.random(rows) < 0.5
    people = {
        "ids": ids,
        "numbers": _number(ids),
        "zips": zips,
        "states": zips // ZIPS_A_STATE,
        "cities": _city(zips),
        "salaries": LOWEST_SALARY + SALARY_STEP * step,
        "rates": _rate(zips // ZIPS_A_STATE, step),
        "has_child": has_child,
        "child_exemptions": _child_exemption(zips // ZIPS_A_STATE, has_child),
        "single_exemptions": np.where(married, 0, 1_000 + 100 * (zips // ZIPS_A_STATE)),
    }
    _break(people, broken or {}, random)
    states = people["states"]
    return pa.table(
        {
            "id": people["ids"],
            "first_name": _pick(FIRST_NAMES, random.integers(0, len(FIRST_NAMES), rows)),
            "last_name": _pick(LAST_NAMES, random.integers(0, len(LAST_NAMES), rows)),
            "gender": _pick(["F", "M"], random.integers(0, 2, rows)),
            "area_code": (200 + people["numbers"] // _PHONES_AN_AREA).astype(np.int32),
            "phone": _phone_text(people["numbers"] % _PHONES_AN_AREA),
            "city": _pick(_city_names(), people["cities"]),
            "state": _pick(STATES, states),
            "zip": _pick([f"{10_000 + 3 * one:05}" for one in range(len(STATES) * ZIPS_A_STATE)], people["zips"]),
            "marital_status": _pick(["S", "M"], married.astype(np.int64)),
            "has_child": _pick(["N", "Y"], people["has_child"].astype(np.int64)),
            "salary": people["salaries"],
            "rate": people["rates"],
            "single_exemp": people["single_exemptions"].astype(np.int32),
            "married_exemp": np.where(married, 2_000 + 150 * states, 0).astype(np.int32),
            "child_exemp": people["child_exemptions"].astype(np.int32),
        }
    )


def _number(ids: np.ndarray) -> np.ndarray:
    return ids % _NUMBERS * _SPREAD % _NUMBERS


def _city(zips: np.ndarray) -> np.ndarray:
    """Which city each zip lies in: three neighbouring zips share one."""
    return zips // 3


def _rate(states: np.ndarray, step: np.ndarray) -> np.ndarray:
    """A tax rate that never falls as the salary rises, on a scale of its own in each state."""
    return np.round(1 + states * 0.05 + step * 0.0005, 3)


def _child_exemption(states: np.ndarray, has_child: np.ndarray) -> np.ndarray:
    return np.where(has_child, 500 + 10 * states, 0)


def _break(people: dict[str, np.ndarray], broken: Mapping[str, int], random: np.random.Generator) -> None:
    """Spoil as many rows as asked, each against one rule."""
    known = (*RULES, *UNWRITTEN)
    unknown = set(broken) - set(known)
    if unknown:
        raise ValueError(f"No such rule to break: {', '.join(sorted(unknown))}. Known: {', '.join(known)}.")
    spoilt = random.permutation(len(people["ids"]))[: sum(broken.values())]
    for rule, count in broken.items():
        rows, spoilt = spoilt[:count], spoilt[count:]
        match rule:
            case "phone_is_unique":  # the number of an earlier row: of an earlier load if there is one
                people["numbers"][rows] = _number(np.maximum(people["ids"][rows] // 2, 1))
            case "zip_decides_city":
                people["cities"][rows] += _city_count()
            case "child_exemption_by_state":
                people["child_exemptions"][rows] += 1
            case "rate_follows_salary":
                people["salaries"][rows] += SALARY_STEP * SALARIES_A_STATE
            case "salary_is_positive":  # with the lowest rate, so that no other rule is broken
                people["salaries"][rows] *= -1
                people["rates"][rows] = 0
            case "single_exemption_by_state":
                people["single_exemptions"][rows] += 1


def _city_count() -> int:
    return len(STATES) * ZIPS_A_STATE // 3


def _city_names() -> list[str]:
    """A name for each city, then the same names misspelt."""
    plain = [
        f"{_CITY_STARTS[one % len(_CITY_STARTS)]}{_CITY_ENDS[one // len(_CITY_STARTS) % len(_CITY_ENDS)]}"
        for one in range(_city_count())
    ]
    return plain + [f"{name[:-2]}{name[-1]}" for name in plain]


def _pick(words: list[str], which: np.ndarray) -> pa.Array:
    return pa.array(words, pa.string()).take(pa.array(which))


def _phone_text(numbers: np.ndarray) -> pa.Array:
    """``555-1234`` for 5551234, digit by digit: formatting a million numbers one by one takes seconds."""
    text = np.full((len(numbers), 8), ord("-"), dtype=np.uint8)
    for place, power in zip((0, 1, 2, 4, 5, 6, 7), range(6, -1, -1), strict=True):
        text[:, place] = ord("0") + numbers // 10**power % 10
    return pa.array(text.view("S8").ravel(), pa.binary()).cast(pa.string())
