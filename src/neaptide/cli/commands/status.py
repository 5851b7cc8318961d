"""`neaptide status`: the daemon and its jobs, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:  # --help loads none of these
    from neaptide.live.protocol.messages import JobStatus

NOT_RUNNING = 3  # the exit code that init scripts use for it


def status(*, json: Annotated[bool, Parameter(help="Print one JSON object instead.")] = False) -> int:
    """Show the daemon and its jobs; exit code 3 when none runs."""
    import msgspec

    from neaptide.core.text import complain, printable
    from neaptide.core.units import format_bytes, format_seconds
    from neaptide.live.protocol.asking import NoDaemonError, ask
    from neaptide.live.protocol.messages import Status, StatusRequest
    from neaptide.live.protocol.paths import runtime_paths

    try:
        answer = ask(runtime_paths(), StatusRequest())
    except NoDaemonError as error:
        complain(str(error))
        return NOT_RUNNING
    assert isinstance(answer, Status)
    if json:
        print(msgspec.json.encode(answer).decode())
        return 0
    print(
        f"daemon {answer.pid}, policy {answer.policy}, up {format_seconds(answer.uptime_seconds)}; "
        f"budget {format_bytes(answer.budget_bytes)}, used {format_bytes(answer.used_bytes)}, "
        f"most {format_bytes(answer.high_water_bytes)}"
    )
    if answer.problem:
        print(f"problem: {printable(answer.problem)}")
    if not answer.jobs:
        print("no jobs")
    for job in answer.jobs:
        print(printable(line_of(job)))
    return 0


def line_of(job: JobStatus) -> str:
    """One line about a job."""
    from neaptide.core.control.job import DisplayState
    from neaptide.core.units import format_bytes

    if job.state is DisplayState.NOT_SHARED:
        return f"{job.name} (process {job.pid}): not shared: {job.reason}"
    done = f"{job.iterations_done}" if job.iterations is None else f"{job.iterations_done}/{job.iterations}"
    said = f"{job.name}: {job.state}, {done} iterations, {job.iterations_per_second:.2f}/s, holds "
    said += format_bytes(job.held_bytes)
    if job.needs_bytes:  # it was measured; it may hold more than it needs, because memory is leased in chunks
        said += f", needs {format_bytes(job.needs_bytes)} "
        said += f"(model {format_bytes(job.persistent_bytes - job.framework_bytes)}, "
        said += f"framework {format_bytes(job.framework_bytes)}, "
        said += f"ephemeral {format_bytes(job.needs_bytes - job.persistent_bytes)})"
    if job.over_bytes:
        said += f", {format_bytes(job.over_bytes)} more over the link"
    return f"{said}: {job.reason}" if job.reason else said
