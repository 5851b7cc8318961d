"""`neaptide run`: several jobs of a TOML file, or one command, under the daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

JOB_FAILED, INTERRUPTED = 1, 130
RUNS = Path("neaptide-runs")


def run(
    target: Annotated[str | None, Parameter(help="A TOML file of jobs, or a program.")] = None,
    /,
    *arguments: Annotated[str, Parameter(help="All that follows a program is its own, options included.")],
    budget: Annotated[str | None, Parameter(help="What all jobs together may hold, such as 6GiB.")] = None,
    policy: Annotated[str | None, Parameter(help="Who may do what, and when: a policy's name, or a .py file.")] = None,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Folder for the jobs' output, the log and the report.")
    ] = None,
    private: Annotated[bool, Parameter(help="Leave a running daemon alone and use one of this run's own.")] = False,
    wait: Annotated[
        str | None, Parameter(help="How long a job waits for memory before it fails. Default: as long as it takes.")
    ] = None,
    name: Annotated[str | None, Parameter(help="A command's name in tables. Default: its script's.")] = None,
    kind: Annotated[
        Literal["training", "inference"] | None, Parameter(help="What a command does. Default: training.")
    ] = None,
    priority: Annotated[int | None, Parameter(help="A command's priority; larger goes first. Default: 0.")] = None,
    slo: Annotated[str | None, Parameter(help="The time for one batch of an inference command, such as 50ms.")] = None,
    iterations: Annotated[int | None, Parameter(help="How many iterations a command does, if it is known.")] = None,
    cuda_as_soft: Annotated[
        bool | None,
        Parameter(
            help="Where there is no GPU, give the software GPU to who asks for cuda, as is the default.",
            negative="--no-cuda-as-soft",
        ),
    ] = None,
) -> int:
    """Run jobs so that they share the device under one budget."""
    if target is None:
        raise ValueError("name a TOML file of jobs, or write a command: neaptide run -- python train.py")
    from neaptide.cli.daemon_for_run import DaemonRequest
    from neaptide.cli.jobs_file import budget_of, deadline_of, seconds_of

    wanted = DaemonRequest(policy=policy, budget_bytes=None if budget is None else budget_of(budget), private=private)
    wait_seconds = None if wait is None else seconds_of(wait)
    if target.endswith(".toml"):
        from neaptide.cli.run_file import run_file

        of_a_command = {"name": name, "kind": kind, "priority": priority, "slo": slo, "iterations": iterations}
        if given := [f"--{key}" for key, value in of_a_command.items() if value is not None]:
            raise ValueError(f"{' and '.join(given)} can only be said of a command; write it into {target}")
        if arguments:
            raise ValueError(f"{target} is a file of jobs and takes no arguments, but {arguments[0]!r} follows it")
        return run_file(Path(target), wanted, wait_seconds, cuda_as_soft, output)

    from neaptide.cli.jobs_file import checked_name, command_of, name_of
    from neaptide.cli.run_command import run_command
    from neaptide.live.runs.launching import DeviceSettings, JobCommand

    if output is not None:
        raise ValueError("--output is for a file of jobs; what a command prints is printed here")
    if iterations is not None and iterations < 1:
        raise ValueError(f"--iterations must be at least 1, not {iterations}")
    _check_is_no_script(target)
    command = command_of((target, *arguments))
    job = JobCommand(
        name=checked_name(name_of(command) if name is None else name),
        command=command,
        kind=kind or "training",
        priority=priority or 0,
        deadline_seconds=None if slo is None else deadline_of(slo),
        iterations=iterations,
    )
    device = DeviceSettings(wait_seconds=wait_seconds, cuda_as_soft=cuda_as_soft is not False)
    return run_command(job, device, wanted)


def _check_is_no_script(target: str) -> None:
    """Raise ValueError if a script was named where a program should be."""
    if target.endswith(".py") and "/" not in target:
        raise ValueError(f"{target} is a script; write the whole command: neaptide run -- python {target}")
