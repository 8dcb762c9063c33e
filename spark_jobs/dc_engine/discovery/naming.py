"""What dependencies that were found are called: as rules of the language that say the same are.

The language itself needs these names, for rules that are pinned in a constraint file, so they are made there.
"""

from __future__ import annotations

from dc_engine.constraints.naming import DependencyClass, class_of, dependency_id, text_of

__all__ = ["DependencyClass", "class_of", "dependency_id", "text_of"]
