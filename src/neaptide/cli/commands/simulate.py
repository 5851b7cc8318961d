"""`neaptide simulate`: a scenario in virtual time under several policies, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from neaptide.cli.output_files import check_writable

if TYPE_CHECKING:  # --help loads none of these
    from rich.console import Console

    from neaptide.core.control.policy import Policy
    from neaptide.reporting.logs.comparison import SimulatedRun
    from neaptide.scenarios.scenario_file import Scenario
    from neaptide.simulation import Submission


def simulate(
    scenario: Annotated[Path | None, Parameter(help="A TOML file: jobs, device, budget, policies.")] = None,
    /,
    *,
    policy: Annotated[
        tuple[str, ...], Parameter(help="Run this policy instead of the scenario's; a name or a .py file. Repeatable.")
    ] = (),
    figure: Annotated[Path | None, Parameter(help="Draw what the jobs held into this PNG, SVG or PDF file.")] = None,
    events: Annotated[Path | None, Parameter(help="Write the event log into this file, as lines of JSON.")] = None,
    perfetto: Annotated[Path | None, Parameter(help="Write a trace for ui.perfetto.dev into this file.")] = None,
    json: Annotated[bool, Parameter(help="Also print one JSON object, on the last line.")] = False,
) -> int:
    """Run a scenario under several policies in virtual time, and compare them."""
    from neaptide.scenarios.scenario_file import load_scenario

    if scenario is None:
        raise ValueError("name a scenario: a TOML file such as examples/scenarios/two-trainings.toml")
    check_writable(events, perfetto, figure=figure)
    given = load_scenario(scenario)
    policies = _policies(given, policy)

    from neaptide.cli import console
    from neaptide.scenarios.submissions import submissions_of
    from neaptide.scenarios.traces import Traces

    traces = Traces(given)
    submissions = submissions_of(given, traces)
    out = console.stdout()
    _print_workload(given, submissions, traces.foreign(given.device), out)
    runs = _run(given, submissions, policies)
    written = _write(given, runs, figure, events, perfetto)
    _print_results(runs, written, out)
    if json:
        print(_json(given, runs))
    return 0


def _policies(scenario: Scenario, chosen: Sequence[str]) -> list[Policy]:
    """The policies to run, each once; the first is the one that throughput is compared with."""
    from neaptide.policies.files import find_policy
    from neaptide.reporting.logs.comparison import REFERENCE

    if chosen:
        found = [find_policy(name) for name in chosen]
    else:
        with scenario.place.blamed("policies"):
            found = [find_policy(name) for name in scenario.policies]
    by_name: dict[str, Policy] = {REFERENCE: find_policy(REFERENCE)}
    for policy in found:
        if type(by_name.setdefault(policy.name, policy)) is not type(policy):
            raise ValueError(f"two different policies are called {policy.name!r}; give yours another name")
    return list(by_name.values())


def _run(scenario: Scenario, submissions: Sequence[Submission], policies: Sequence[Policy]) -> list[SimulatedRun]:
    from neaptide.reporting.terminal.progress import progress
    from neaptide.scenarios.compare import compare

    with progress(f"simulating {len(policies)} policies") as on_progress:
        return compare(
            submissions,
            scenario.device,
            scenario.budget_bytes,
            policies,
            budget_changes=scenario.budget_changes,
            until_ns=scenario.until_ns,
            in_flight=scenario.in_flight,
            on_progress=on_progress,
        )


def _print_workload(scenario: Scenario, submissions: Sequence[Submission], notes: Sequence[str], out: Console) -> None:
    from neaptide.core.units import format_bytes
    from neaptide.reporting.terminal.workload import workload_table

    share = scenario.budget_bytes / scenario.device.memory_bytes
    words = f"{scenario.device.name}, budget {format_bytes(scenario.budget_bytes)} ({share:.0%}), seed {scenario.seed}"
    out.print(f"{scenario.name}: {words}", style="bold", soft_wrap=True)
    out.print()
    out.print(workload_table(submissions, out.width))
    for note in notes:
        out.print(note, style="yellow")
    out.print()


def _print_results(runs: Sequence[SimulatedRun], written: Sequence[str], out: Console) -> None:
    from neaptide.reporting.terminal.comparison import print_comparison

    print_comparison([run.row for run in runs], out)
    if written:
        out.print("\n" + "\n".join(written), soft_wrap=True)


def _write(
    scenario: Scenario, runs: Sequence[SimulatedRun], figure: Path | None, events: Path | None, perfetto: Path | None
) -> list[str]:
    """Write the files that were asked for; a line for each."""
    from neaptide.core.control.log_format import Header
    from neaptide.core.units import format_bytes
    from neaptide.reporting.figures.shared_memory import save_shared_memory
    from neaptide.reporting.logs.log_file import write_log
    from neaptide.reporting.pages.perfetto import write_perfetto

    jobs = tuple(record.job for record in runs[0].row.metrics.jobs)
    written = []
    if figure is not None:
        name = scenario.name.removesuffix(".toml")
        title = f"{name}: {scenario.device.name}, budget {format_bytes(scenario.budget_bytes)}"
        save_shared_memory(runs, title, figure)
        written.append(f"figure written to {figure}")
    if events is not None:
        headers = [
            Header(
                scenario=scenario.name,
                policy=run.row.policy,
                seed=scenario.seed,
                device=scenario.device.name,
                budget_bytes=scenario.budget_bytes,
                end_ns=run.outcome.end_ns,
                jobs=jobs,
            )
            for run in runs
        ]
        write_log(events, [(header, run.outcome.entries) for header, run in zip(headers, runs, strict=True)])
        written.append(f"event log written to {events}")
    if perfetto is not None:
        write_perfetto(perfetto, [(run.outcome, jobs) for run in runs])
        written.append(f"trace written to {perfetto}; open it at https://ui.perfetto.dev")
    return written


def _json(scenario: Scenario, runs: Sequence[SimulatedRun]) -> str:
    import msgspec

    from neaptide import __version__
    from neaptide.reporting.logs.comparison import comparison_values

    report = {
        "scenario": scenario.name,
        "device": scenario.device.name,
        "budget_bytes": scenario.budget_bytes,
        "seed": scenario.seed,
        "version": __version__,
        "policies": comparison_values([run.row for run in runs]),
    }
    return msgspec.json.encode(report).decode()
