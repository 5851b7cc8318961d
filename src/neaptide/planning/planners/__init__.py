"""One job in less memory: the papers' planners and our own, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from importlib import import_module

from neaptide.planning.plan import Planner

_NAMES = (
    "liveness", "vdnn-conv", "vdnn-all", "vdnn", "superneurons", "swapadvisor", "capuchin", "checkmate", "gist", "echo",
    "dtr", "best",
)  # fmt: skip


class Planners(Mapping[str, Planner]):
    """Planners by name. A planner's file is read when it is asked for: a solver is not loaded in vain."""

    def __getitem__(self, name: str) -> Planner:
        if name not in _NAMES:
            near = difflib.get_close_matches(name, _NAMES, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else f"known are {', '.join(_NAMES)}"
            raise ValueError(f"no planner is called {name!r}; {hint}")
        file, _, variant = name.partition("-")
        module = import_module(f"neaptide.planning.planners.{file}")
        planner: Planner = getattr(module, f"plan_{variant}" if variant else "plan")
        return planner

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


PLANNERS: Mapping[str, Planner] = Planners()

__all__ = ["PLANNERS"]
