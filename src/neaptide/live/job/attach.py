"""Makes this process a job of the daemon: the program calls `neaptide.attach`, or `neaptide run` has it prepared.

Both come here, so that there is one way to attach; `membership` does it at the program's first use of the device.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from neaptide.core.control.job import JobKind
from neaptide.core.control.job_limits import usable_name
from neaptide.core.rules.reserve import DEFAULT_QUANTILE
from neaptide.core.text import complain_aside
from neaptide.devices import GpuPresentError, chosen_device, find_kind
from neaptide.live.job.serving.requests import Request, RequestBook, current_requests, deadline_ns_of, serving
from neaptide.live.protocol.absence import Absence
from neaptide.live.protocol.job_settings import BOOTSTRAP, JobSettings
from neaptide.live.protocol.paths import RuntimePaths, check_folder, runtime_paths
from neaptide.standard_files import fill_standard_files

if TYPE_CHECKING:
    from neaptide.live.job.membership import Membership

_memberships: list[Membership] = []  # one when this process is prepared, else none
_absence: list[Absence] = []  # one when it could not be prepared
_shown: list[mmap.mmap] = []  # of the bootstrap


def attach(
    name: str | None = None,
    *,
    kind: str = "training",
    iterations: int | None = None,
    priority: int = 0,
    deadline_seconds: float | None = None,
    deadline_quantile: float = DEFAULT_QUANTILE,
    latency_critical: bool = False,
    memory_bytes: int | None = None,
) -> None:
    """Let this process, and those that it starts, share the device under the daemon.

    Call it before the device is used: the process becomes a job at its first use of the device. Where there is no GPU,
    `cuda` means the software GPU from now on. `kind` is `training` or `inference`; every call of an inference job's
    model is a request, and `deadline_seconds` is the time in which a request should be served; `deadline_quantile` is
    the share of requests for which it should be kept. A `latency_critical` job is served as if it were alone.
    `memory_bytes` is what the process will hold at most, for a program of which no earlier run was measured. Under
    `neaptide run` the process is prepared already, and these arguments replace what the daemon is told of the job.
    """
    try:
        chosen = JobKind(kind)
    except ValueError:
        raise ValueError(f"kind must be training or inference, not {kind!r}") from None
    settings = JobSettings(
        name=name or os.environ.get("NEAPTIDE_JOB") or _name_of_program(),
        kind=chosen,
        iterations=iterations,
        priority=priority,
        deadline_seconds=deadline_seconds,
        deadline_quantile=deadline_quantile,
        latency_critical=latency_critical,
        memory_bytes=memory_bytes,
    )
    _show()
    import torch  # noqa: F401 - under `neaptide run` this import prepares the process

    if _without_daemon():
        return
    if not _memberships:
        _prepare(settings)
        os.environ.update(settings.environment(_socket(), chosen_device(), os.environ))
    elif _memberships[0].attached:
        complain_aside(
            "neaptide.attach was called after the first use of the device; what it says of the job is not used"
        )
    _memberships[0].become(settings)


@contextmanager
def request(deadline: str | float | None = None) -> Iterator[Request]:
    """What a server does for one request, from its arrival to its answer, where neaptide does not see it by itself.

    `deadline` is the time for this request, in seconds or as a text such as `300ms`, if it is another one than the
    job's. A server that puts several requests into one batch calls its model inside `neaptide.serving(requests)`. In
    a process that is no job this does nothing.
    """
    deadline_ns = deadline_ns_of(deadline)
    for outer in current_requests()[:1]:  # the server's framework has announced it
        outer.deadline_ns = outer.deadline_ns if deadline_ns is None else deadline_ns
        yield outer
        return
    book = _memberships[0].requests if _memberships else RequestBook()
    made = book.arrive("neaptide.request", deadline_ns)
    with serving((made,)):
        try:
            yield made
        finally:
            book.answer(made)


def prepare_from_environment() -> None:
    """Prepare a process that `neaptide run` started, once torch has been imported; say so if that cannot be done."""
    if _memberships:
        return
    if _without_daemon():
        find_kind(chosen_device().kind).prepare()
        return
    try:
        settings = JobSettings.from_environment(os.environ, _name_of_program())
    except ValueError as error:
        complain_aside(f"this process is not shared: {error}")
        return
    try:
        _prepare(settings)
    except Exception as error:  # an error of neaptide must not end the program
        reason = str(error) if isinstance(error, GpuPresentError) else f"{error}; torch works on the CPU"
        complain_aside(f"job {settings.name} (process {os.getpid()}) is not shared: {reason}")
        _absence.append(Absence(_socket()))
        _absence[0].tell(settings.name, reason)
        os.register_at_fork(after_in_child=_absence[0].end)


def _prepare(settings: JobSettings) -> None:
    with suppress(OSError):  # no descriptor is left
        fill_standard_files()
    from neaptide.live.job.membership import Membership

    socket = _socket()
    if "NEAPTIDE_SOCKET" not in os.environ and not socket.exists():
        raise ValueError(f"there is no daemon at {socket}; start one with `neaptide up`")
    check_folder(socket.parent)
    membership = Membership(settings, socket, RuntimePaths(socket.parent).board, chosen_device())
    membership.prepare()
    _memberships.append(membership)


def _show() -> None:
    """Map the bootstrap, as it does itself: a program may attach by itself where Python has not read it."""
    if _shown:
        return
    with suppress(OSError, ValueError), (BOOTSTRAP / "sitecustomize.py").open("rb") as file:
        _shown.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _without_daemon() -> bool:
    """Whether this program is run for comparison, without neaptide: it has the device, and no daemon."""
    return os.environ.get("NEAPTIDE_SOCKET") == ""


def _socket() -> Path:
    named = os.environ.get("NEAPTIDE_SOCKET")
    return Path(named) if named else runtime_paths().socket


def _name_of_program() -> str:
    return usable_name(Path(sys.argv[0] if sys.argv else "").stem or "python")
