"""What this process has read of the indexes, for its next job: files never change once they are written.

A session that applies load after load then reads only what is new. Everything is kept, after it was checked, under the
checksum of its file and its stamp on the disk, so that a file that is touched or gone is noticed. The oldest
goes first, and what would take much of the room by itself is not kept: what a load comes back to would go for it, and
have to be made of it again. Workers keep nothing: a large load would fill each of them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from dc_engine.sizes import SIZES

Content = TypeVar("Content")
_SHARE = 4
"""Of the room this part at most is for one content."""


class Memory:
    """Contents by their keys, up to a number of bytes in all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._size = 0

    def known(self, key: Hashable) -> Any:
        """What is kept under this key; ``None`` without."""
        with self._lock:
            return self._known.get(key, (None, 0))[0]

    def recall(
        self, key: Hashable, read: Callable[[Content | None], Content], size: Callable[[Content], int]
    ) -> Content:
        """The content of this key. ``read`` is given what is known of it, and returns that if it is enough."""
        with self._lock:
            known = self._known.get(key, (None, 0))[0]
            if known is not None:
                self._known.move_to_end(key)
        content = read(known)
        if content is not known:
            with self._lock:
                self._size -= self._known.pop(key, (None, 0))[1]
                if size(content) <= SIZES.remembered_bytes // _SHARE:
                    self._known[key] = (content, size(content))
                    self._size += size(content)
                while self._size > SIZES.remembered_bytes:
                    self._size -= self._known.popitem(last=False)[1][1]
        return content


MEMORY = Memory()
"""That of this process."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where things lie that are made of some files, under what these are; without that nothing stays."""

    key: Hashable | None = None

    def recall(self, name: Hashable, make: Callable[[], Content], size: Callable[[Content], int]) -> Content:
        """What has this name, made if it is not there."""
        if self.key is None:
            return make()

        def read(known: Content | None) -> Content:
            return make() if known is None else known

        return MEMORY.recall((self.key, name), read, size)
