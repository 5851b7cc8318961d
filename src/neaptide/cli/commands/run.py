"""`neaptide run`: several jobs of a TOML file, or one command, under the daemon."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from neaptide.cli.device_flags import flags_of, kind_with_flags, no_flags_of
from neaptide.devices import default_kind
from neaptide.devices.interface import DeviceSettings

if TYPE_CHECKING:
    _Settings = DeviceSettings
else:
    _Settings = flags_of(kind_with_flags().settings_type)
_NO_SETTINGS = no_flags_of(_Settings)


def run(
    target: Annotated[str | None, Parameter(help="A TOML file of jobs, or a program.")] = None,
    /,
    *arguments: Annotated[str, Parameter(help="Everything after a program is passed to it, options too.")],
    budget: Annotated[
        str | None,
        Parameter(help="What all jobs together may hold, such as 6GiB. Default: the file's, or half the memory."),
    ] = None,
    policy: Annotated[
        str | None,
        Parameter(
            help="The policy that decides which job runs when: a name, or a .py file. Default: the file's, or neaptide."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"],
            help="Folder for the jobs' output, the log and the report. Default: a new one in neaptide-runs.",
        ),
    ] = None,
    private: Annotated[bool, Parameter(help="Start a daemon for this run alone, even if another one runs.")] = False,
    without_neaptide: Annotated[
        Literal["one-after-the-other", "at-once"] | None,
        Parameter(help="For comparison: run a file's jobs without sharing, each alone or all at once."),
    ] = None,
    name: Annotated[str | None, Parameter(help="A command's name in tables. Default: the name of its script.")] = None,
    kind: Annotated[
        Literal["training", "inference"] | None, Parameter(help="What a command does. Default: training.")
    ] = None,
    priority: Annotated[
        int | None, Parameter(help="A command's priority; one more doubles its share. Default: 0.")
    ] = None,
    slo: Annotated[str | None, Parameter(help="The deadline for one batch of an inference command, as 50ms.")] = None,
    slo_quantile: Annotated[
        float | None, Parameter(help="The share of requests that keep --slo. Default: 0.99.")
    ] = None,
    latency_critical: Annotated[
        bool | None, Parameter(negative="", help="Serve an inference command's requests as if it were alone.")
    ] = None,
    iterations: Annotated[
        int | None, Parameter(help="How many iterations a command will do, if that is known.")
    ] = None,
    memory: Annotated[
        str | None,
        Parameter(help="What a command will hold at most, as 2GiB. Used unless an earlier run was measured."),
    ] = None,
    device: _Settings = _NO_SETTINGS,
) -> int:
    """Run jobs so that they share the device under one budget."""
    if target is None:
        raise ValueError("name a TOML file of jobs, or write a command: neaptide run -- python train.py")
    default_kind()  # a device that is not here, or cannot be shared, is refused before anything starts
    from neaptide.cli.running.jobs_file import budget_of, deadline_of
    from neaptide.live.runs.daemon_for_run import DaemonRequest

    wanted = DaemonRequest(policy=policy, budget_bytes=None if budget is None else budget_of(budget), private=private)
    if target.endswith(".toml"):
        from neaptide.cli.running.run_file import run_file

        of_a_command: dict[str, object] = {"name": name, "kind": kind, "priority": priority, "slo": slo}
        of_a_command |= {"slo-quantile": slo_quantile, "latency-critical": latency_critical}
        of_a_command |= {"iterations": iterations, "memory": memory}
        if given := [f"--{key}" for key, value in of_a_command.items() if value is not None]:
            raise ValueError(f"{' and '.join(given)} can only be given for a command; write it into {target}")
        if arguments:
            raise ValueError(f"{target} is a file of jobs and takes no arguments, but {arguments[0]!r} follows it")
        return run_file(Path(target), wanted, device, output, without_neaptide)

    from neaptide.cli.running.jobs_file import command_of, memory_of, name_of
    from neaptide.cli.running.run_command import run_command
    from neaptide.core.rules.reserve import DEFAULT_QUANTILE
    from neaptide.live.runs.launching import JobCommand

    if without_neaptide is not None:
        raise ValueError(
            "--without-neaptide is for a file of jobs; a single command is run as it is, without neaptide run"
        )
    if output is not None:
        raise ValueError("--output is for a file of jobs; what a command prints is printed here")
    _check_is_program(target, arguments)
    command = command_of((target, *arguments))
    job = JobCommand(
        name=name_of(command) if name is None else name,
        command=command,
        kind=kind or "training",
        priority=priority or 0,
        deadline_seconds=None if slo is None else deadline_of(slo),
        deadline_quantile=DEFAULT_QUANTILE if slo_quantile is None else slo_quantile,
        latency_critical=latency_critical or False,
        iterations=iterations,
        memory_bytes=None if memory is None else memory_of(memory),
    )
    return run_command(job, device, wanted)


def _check_is_program(target: str, arguments: tuple[str, ...]) -> None:
    """Raise ValueError if a script or another file was named where a program should be."""
    if shutil.which(target) is not None:
        return
    if target.endswith(".py"):
        whole = shlex.join(["python", target, *arguments])
        raise ValueError(f"{target} is a script; write the whole command: neaptide run -- {whole}")
    if Path(target).is_file():
        raise ValueError(
            f"{target} is no program; name a TOML file of jobs, or write a command: neaptide run -- python train.py"
        )
