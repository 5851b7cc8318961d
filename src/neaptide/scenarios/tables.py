"""The tables of a scenario file as TOML has them; docs/scenarios.md explains every key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from neaptide.core.rules.reserve import DEFAULT_QUANTILE
from neaptide.scenarios.sources import DEFAULT_DEVICE
from neaptide.scenarios.toml import Time

DEFAULT_POLICIES = ("temporal", "neaptide")
Arrivals = Literal["fixed", "poisson"]


class RequestsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Samples that arrive at an inference job after its own arrival, whether or not the job keeps up."""

    rate: float  # per second
    count: int | None = None
    duration: Time | None = None
    arrivals: Arrivals = "poisson"


class JobTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[job]]`."""

    name: str | None = None
    model: str | None = None
    batch: int | None = None
    scale: Literal["paper", "tiny"] = "paper"
    trace: str | None = None
    plans: tuple[str, ...] = ()
    kind: Literal["training", "inference"] | None = None
    iterations: int | None = None
    duration: Time | None = None  # of a job that runs alone
    arrives: Time = 0
    count: int = 1
    every: Time = 0  # between copies
    arrivals: Arrivals = "fixed"  # of the copies
    priority: int = 0
    slo: Time | None = None
    framework: str | None = None  # memory that its process has besides the program's tensors, such as a GPU's context
    slo_quantile: float = DEFAULT_QUANTILE
    latency_critical: bool = False
    requests: RequestsTable | None = None

    @property
    def title(self) -> str:
        return self.name or self.model or (Path(self.trace).stem if self.trace else "") or "?"

    @property
    def inference(self) -> bool:
        return self.kind == "inference" or (self.kind is None and self.requests is not None)


class BudgetChangeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[budget_change]]`."""

    at: Time
    budget: str | float


class ScenarioTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The top level of the file."""

    device: str | dict[str, Any] = DEFAULT_DEVICE
    budget: str | float = 1.0
    policies: tuple[str, ...] = DEFAULT_POLICIES
    seed: int = 0
    in_flight: int | None = None
    until: Time | None = None
    arrivals: str | None = None
    job: tuple[dict[str, Any], ...] = ()
    budget_change: tuple[dict[str, Any], ...] = ()
