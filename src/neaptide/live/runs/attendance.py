"""Whether a run has shared anything: whether one of its processes became a job of the daemon."""

from __future__ import annotations

from neaptide.core.control.job import DisplayState
from neaptide.live.protocol.asking import NoDaemonError, ask
from neaptide.live.protocol.messages import Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths

NOT_SHARED = 3  # the exit code of a run that shared nothing
WARNING = (
    "NOTHING WAS SHARED: no process of this run used the device through neaptide, so no job came under the policy "
    "or the budget; docs/attaching.md says what a program must do to become a job"
)


def status_now(paths: RuntimePaths) -> Status | None:
    """The daemon's status, and its log written up to now; None when it is gone."""
    try:
        answer = ask(paths, StatusRequest())
    except NoDaemonError:
        return None
    assert isinstance(answer, Status)
    return answer


def some_job_came(before: Status | None, after: Status | None) -> bool:
    """Whether a process became a job between the two; also True if the daemon is gone, so that nobody can tell."""
    if before is None or after is None or before.pid != after.pid:
        return True
    known = {(job.name, job.pid) for job in before.jobs}
    shared = {(job.name, job.pid) for job in after.jobs if job.state is not DisplayState.NOT_SHARED}
    return bool(shared - known)
