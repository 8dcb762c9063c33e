"""What a filesystem's errors may say: everything but the secrets among the options by which it is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

_HARMLESS = frozenset({"endpoint_url", "region", "region_name", "addressing_style", "signature_version", "project"})


def told(error: BaseException, options: Mapping[str, Any]) -> str:
    """What an error says, in one line and without secrets."""
    lines = _without_secrets(str(error), options).strip().splitlines()
    return lines[0].rstrip(" .") if lines else type(error).__name__


def shown(error: BaseException, options: Mapping[str, Any]) -> BaseException | None:
    """The error as the cause of another, unless its traceback would show a secret."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return None if any(_without_secrets(text := f"{one}{one!r}", options) != text for one in chain) else error


def _without_secrets(text: str, options: Mapping[str, Any]) -> str:
    secrets = set(_secrets(options))
    for secret in sorted(secrets | {quote(one, safe="") for one in secrets}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _secrets(value: object, name: str = "") -> Iterator[str]:
    """The values among a filesystem's options that nobody may read."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _secrets(one, str(key))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _secrets(one, name)
    elif isinstance(value, str) and len(value) >= 4 and (name not in _HARMLESS or "@" in value):
        yield value
