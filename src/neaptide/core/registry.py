"""Things that are known by name, such as policies and planners."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Registry(Generic[Made]):
    """Makers by name. `what` names one of the things in error messages."""

    what: str
    makers: Mapping[str, Callable[[], Made]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def make(self, name: str) -> Made:
        """Make the thing that has this name; if none has, ValueError with the nearest names."""
        self.check(name)
        return self.makers[name]()

    def check(self, name: str) -> None:
        """ValueError with the nearest names if nothing has this name. Makes nothing."""
        if name in self.makers:
            return
        near = difflib.get_close_matches(name, self.makers, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"known are {', '.join(self.makers)}"
        raise ValueError(f"no {self.what} is called {name!r}; {hint}")
