"""`neaptide plan`: one job in less memory, by every planner or by one, without running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from neaptide.cli.output_files import check_writable
from neaptide.cli.target import target_kind

if TYPE_CHECKING:  # --help loads none of these
    from neaptide.core.device import DeviceSpec
    from neaptide.core.traces.trace import Trace
    from neaptide.planning.apply import Summary
    from neaptide.planning.plan import Planner
    from neaptide.reporting.terminal.plan_table import Attempt

# Shares of the ephemeral bytes at which a frontier is drawn.
SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)


def plan(
    target: Annotated[str | None, Parameter(help="A model or a trace file.")] = None,
    /,
    *,
    budget: Annotated[
        str | None,
        Parameter(help="What an iteration may hold: bytes, as 6GiB, or a part of its peak, as 50%."),
    ] = None,
    planner: Annotated[
        tuple[str, ...], Parameter(help="Only this planner: a name, or a .py file. Repeatable. Default: all of them.")
    ] = (),
    batch: Annotated[int | None, Parameter(help="Samples per iteration; each model has its default.")] = None,
    device: Annotated[
        str | None, Parameter(help="Device to plan for, V100-16GB if none is named; or a TOML file describing one.")
    ] = None,
    scale: Annotated[
        Literal["paper", "tiny"] | None, Parameter(help="Size of the model: as published, or tiny.")
    ] = None,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Write the fastest plan's trace to this file.")
    ] = None,
    figure: Annotated[
        Path | None, Parameter(help="Draw time against memory, at several budgets, into this PNG, SVG or PDF file.")
    ] = None,
    json: Annotated[bool, Parameter(help="Also print one JSON object, on the last line.")] = False,
) -> int:
    """Show what it costs to run one iteration in less memory: swapping, recomputing and compressing tensors."""
    from neaptide.cli import console
    from neaptide.planning.analysis.bounds import lower_bound
    from neaptide.reporting.terminal.plan_table import attempt_values, print_attempts
    from neaptide.reporting.terminal.progress import progress
    from neaptide.scenarios import sources

    if target is None:
        raise ValueError(f"name a model or a trace file; the models are {sources.zoo_names()}")
    check_writable(output, figure=figure)
    planners = _planners(planner)
    options = sources.ModelOptions(batch=batch, device=device, scale=scale)
    trace, spec = _trace(target, options)
    budget_bytes = _budget(budget, trace)
    attempts: list[Attempt] = []
    with progress("planning") as on_progress:
        for name, make_plan in planners.items():
            on_progress(len(attempts), len(planners))
            attempts.append(_attempt(trace, name, make_plan, budget_bytes, spec))
    out = console.stdout()
    bound_bytes = lower_bound(trace)
    print_attempts(trace, spec, budget_bytes, bound_bytes, attempts, out)
    written = _write(trace, spec, attempts, planners, output, figure)
    if written:
        out.print("\n" + "\n".join(written), soft_wrap=True)
    if json:
        import msgspec

        values = {"budget_bytes": budget_bytes, "bound_bytes": bound_bytes, "planners": attempt_values(attempts)}
        print(msgspec.json.encode(values).decode())
    return 0 if any(attempt.summary is not None for attempt in attempts) else 1


def _planners(wanted: Sequence[str]) -> dict[str, Planner]:
    from neaptide.planning.planners import ONLY_BY_NAME, PLANNERS
    from neaptide.planning.planners.files import find_planner

    names = wanted or [name for name in PLANNERS if name not in ONLY_BY_NAME]
    return {name: find_planner(name) for name in names}


def _trace(target: str, options: object) -> tuple[Trace, DeviceSpec]:
    from neaptide.capture.files import load_trace
    from neaptide.scenarios import sources

    assert isinstance(options, sources.ModelOptions)
    kind = target_kind(target)
    if kind == "script":
        raise ValueError(f"{target} is a script: profile it first (neaptide profile {target} -o FILE) and plan that")
    if kind == "model":
        trace, spec = sources.model_trace(target, options)
        assert spec is not None
        return trace, spec
    if options.batch is not None or options.scale is not None:
        raise ValueError("--batch and --scale can only be given for a model; a trace has its own")
    trace = load_trace(Path(target))
    return trace, sources.device_of(options.device or _device_of(trace))


def _device_of(trace: Trace) -> str:
    """The catalogue's device that a trace was taken on, if it is there."""
    from neaptide.core.device import CATALOGUE
    from neaptide.scenarios.sources import DEFAULT_DEVICE

    name = trace.device.split(":")[0]
    return name if name in CATALOGUE else DEFAULT_DEVICE


def _budget(text: str | None, trace: Trace) -> int:
    from neaptide.core.units import parse_bytes

    if text is None:
        return trace.persistent_bytes + trace.ephemeral_bytes // 2
    if text.endswith("%"):
        try:
            share = float(text[:-1]) / 100
        except ValueError:
            raise ValueError(f"a budget is bytes such as 6GiB, or a percentage of the peak, not {text!r}") from None
        if not 0 < share <= 1:
            raise ValueError(f"a budget is more than 0% and at most 100% of the peak, not {text}")
        return round(trace.peak_bytes * share)
    return parse_bytes(text)


def _attempt(trace: Trace, name: str, planner: Planner, budget_bytes: int, spec: DeviceSpec) -> Attempt:
    from neaptide.core.units import format_bytes
    from neaptide.planning.apply import summary_of
    from neaptide.planning.plan import CannotFitError
    from neaptide.reporting.terminal.plan_table import Attempt

    started = perf_counter()
    try:
        made = planner(trace, budget_bytes, spec)
    except CannotFitError as error:
        return Attempt(error.planner, None, None, perf_counter() - started, error.lowest_bytes)
    seconds = perf_counter() - started
    summary = summary_of(trace, made, spec)
    if summary.peak_bytes > budget_bytes:
        peak, budget = format_bytes(summary.peak_bytes), format_bytes(budget_bytes)
        raise ValueError(f"the plan of {name} holds {peak}, more than the budget of {budget}")
    return Attempt(made.planner, made, summary, seconds)


def _write(
    trace: Trace,
    spec: DeviceSpec,
    attempts: Sequence[Attempt],
    planners: Mapping[str, Planner],
    output: Path | None,
    figure: Path | None,
) -> list[str]:
    from neaptide.capture.files import save_trace
    from neaptide.planning.apply import apply
    from neaptide.reporting.figures.frontier import save_frontier
    from neaptide.reporting.terminal.progress import progress

    written = []
    made = [attempt for attempt in attempts if attempt.summary is not None]
    if output is not None and made:
        fastest = min(made, key=lambda attempt: attempt.summary.seconds if attempt.summary else 0.0)
        assert fastest.plan is not None
        save_trace(apply(trace, fastest.plan, spec), output)
        written.append(f"the trace under {fastest.planner}'s plan written to {output}")
    if figure is not None:
        found: dict[str, list[Summary]] = {}
        with progress("planning for the figure") as on_progress:
            for done, (name, planner) in enumerate(planners.items()):
                on_progress(done, len(planners))
                budgets = [trace.persistent_bytes + round(trace.ephemeral_bytes * share) for share in SHARES]
                tried = [_attempt(trace, name, planner, budget, spec).summary for budget in budgets]
                found[attempts[done].planner] = [summary for summary in tried if summary is not None]
        save_frontier(trace, found, figure)
        written.append(f"figure written to {figure}")
    return written
