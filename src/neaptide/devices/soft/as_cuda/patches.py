"""Changes to modules and classes of other packages that can be undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patches:
    """Attributes that were replaced, with their former values."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []
        self._afterwards: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute; an inherited one is hidden, not changed."""
        self._replaced.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def when_undone(self, call: Callable[[], None]) -> None:
        """Have `call` called when everything else has been undone."""
        self._afterwards.append(call)

    def undo(self) -> None:
        """Undo everything, the last change first."""
        while self._replaced:
            owner, name, value = self._replaced.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        while self._afterwards:
            self._afterwards.pop()()
