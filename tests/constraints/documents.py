"""Constraint files and mappings for tests, and how they are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dc_engine.constraints.files import load_constraints
from dc_engine.errors import ConstraintError


def write(folder: Path, text: str) -> Path:
    path = folder / "tax.yml"
    path.write_text(text, encoding="utf-8")
    return path


def one(**entry: Any) -> dict[str, Any]:
    return {"version": 1, "table": "tax", "constraints": [{"name": "x", **entry}]}


def refusal(source: Any) -> ConstraintError:
    with pytest.raises(ConstraintError) as caught:
        load_constraints(source)
    assert caught.value.message.endswith(".")
    return caught.value
