"""What a discovery may be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

MODES = st.sampled_from(["auto", "counted", "witnessed", "witnessed"])
CLASSES = st.sampled_from(
    [("unique", "fd", "dc"), ("unique", "fd", "od", "pod", "dc")] * 2
    + [("unique", "fd", "od", "dc"), ("unique", "fd", "pod", "dc")]
    + [("fd",), ("pod",), ("od",), ("unique", "dc"), ("unique", "fd"), ("unique", "pod"), ("fd", "od")]
)
ERRORS = st.sampled_from([0] * 4 + [0.05, 0.1, 0.2, 0.34, 0.5])
LIMITS = st.sampled_from(
    [{}] * 4
    + [{"max_terms": most} for most in (1, 2, 3)]
    + [{"max_dependencies": 3}, {"max_terms": 2, "min_support": 2}]
    + [{"min_support": least} for least in (1, 3, 6)]
)


@st.composite
def asked(draw: st.DrawFn, names: Sequence[str]) -> dict[str, Any]:
    """A request, but for the state and the table."""
    classes = list(draw(CLASSES))
    return {
        "space": draw(spaces(names)) | {"descending": "od" in classes and draw(st.booleans())},
        "mode": draw(MODES),
        "classes": classes,
        "max_error": draw(ERRORS),
        "limits": draw(LIMITS),
    }


@st.composite
def spaces(draw: st.DrawFn, names: Sequence[str]) -> dict[str, Any]:
    """What a discovery looks at."""
    asked: dict[str, Any] = {"exclude": ["id"]}
    if draw(st.booleans()):
        asked["columns"] = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    if draw(st.integers(0, 3)) == 0:
        asked["nulls"] = "equal"
    elif draw(st.integers(0, 3)) == 0:
        asked["ordered"] = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    asked["cross"] = draw(st.sampled_from(["none", "none", "one", "both", [["a", "b"]], [["b", "a", ["<=", ">"]]]]))
    if asked["cross"] in ("one", "both"):  # what is compared with everything is few, or nobody could check it
        asked["columns"] = ["a", "b"]
    return asked
