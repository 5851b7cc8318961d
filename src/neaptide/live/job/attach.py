"""Makes this process a job of the daemon: by `neaptide.attach` in a program, or unseen, under `neaptide run`.

NEAPTIDE_SOCKET is the daemon's socket, NEAPTIDE_SOFT_BOARD its board, NEAPTIDE_JOB the job's name; NEAPTIDE_KIND
(training or inference), _ITERATIONS, _PRIORITY and _DEADLINE (seconds for one batch) say what `attach` is told
otherwise. NEAPTIDE_CUDA_AS_SOFT=1 gives the software GPU to a program that asks for `cuda`.
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neaptide.core.control.job import JobKind
from neaptide.live.protocol.paths import runtime_paths

if TYPE_CHECKING:
    from neaptide.live.job.client import Client

_NAME_BYTES = 63
_MEMORY_WAIT_SECONDS = 10 * 365 * 86400  # no job dies for memory that others hold
_attached: list[Client] = []  # one, where this process is a job


def attach(
    name: str | None = None,
    *,
    kind: str = "training",
    iterations: int | None = None,
    priority: int = 0,
    deadline_seconds: float | None = None,
) -> None:
    """Let this process share the device under the daemon, from its first operation on the device on.

    Call it before the device is used. `kind` is `training` or `inference`; of an inference job every call of its model
    is a request, and `deadline_seconds` the time in which it should be served. Under `neaptide run` the process is
    attached already, and what is given here completes what the daemon is told.
    """
    try:
        chosen = JobKind(kind)
    except ValueError:
        raise ValueError(f"kind must be training or inference, not {kind!r}") from None
    if iterations is not None and iterations < 1:
        raise ValueError(f"iterations must be at least 1, not {iterations}")
    if deadline_seconds is not None and not deadline_seconds > 0:
        raise ValueError(f"deadline_seconds must be positive, not {deadline_seconds}")
    _join(name or _default_name(), chosen, iterations, priority, deadline_seconds)


def attach_from_environment() -> None:
    """As `attach`, told by the environment alone."""
    if os.environ.get("NEAPTIDE_CUDA_AS_SOFT") == "1":
        _use_board()
        from neaptide.devices.soft import as_cuda as cuda_as_soft

        cuda_as_soft.install()
    if not _attached:
        iterations = os.environ.get("NEAPTIDE_ITERATIONS")
        deadline = os.environ.get("NEAPTIDE_DEADLINE")
        attach(
            kind=os.environ.get("NEAPTIDE_KIND") or "training",
            iterations=int(float(iterations)) if iterations else None,
            priority=int(os.environ.get("NEAPTIDE_PRIORITY") or 0),
            deadline_seconds=float(deadline) if deadline else None,
        )


def _default_name() -> str:
    return os.environ.get("NEAPTIDE_JOB") or Path(sys.argv[0] if sys.argv else "").stem or "python"


def _use_board() -> None:
    """The device of this process is the daemon's."""
    os.environ.setdefault("NEAPTIDE_SOFT_BOARD", str(runtime_paths().board))
    os.environ.setdefault("NEAPTIDE_SOFT_WAIT", str(_MEMORY_WAIT_SECONDS))


def _join(name: str, kind: JobKind, iterations: int | None, priority: int, deadline_seconds: float | None) -> None:
    socket = Path(os.environ.get("NEAPTIDE_SOCKET") or runtime_paths().socket)
    if not _attached and not os.environ.get("NEAPTIDE_SOCKET") and not socket.exists():
        raise ValueError(f"there is no daemon at {socket}; start one with `neaptide up`")
    board_before = os.environ.get("NEAPTIDE_SOFT_BOARD")
    started = "neaptide.devices.soft" in sys.modules
    _use_board()
    if started and not _attached and board_before is None:
        raise ValueError("the software GPU is in use already; call neaptide.attach before importing it")
    from neaptide.live.job.client import Client, JobSettings

    settings = JobSettings(
        name=name.encode()[:_NAME_BYTES].decode(errors="ignore"),
        socket=socket,
        kind=kind,
        iterations=iterations,
        priority=priority,
        deadline_seconds=deadline_seconds,
    )
    if _attached:
        _attached[0].settings = settings
        return
    client = Client(settings)
    _attached.append(client)
    atexit.register(client.leave)  # after the device's own, so it is called before that one
    os.register_at_fork(after_in_child=client.forget)
    _note_failures(client)
    client.join()


def _note_failures(client: Client) -> None:
    """Have the daemon told of the error that ends the program; what is printed stays as it is."""
    before = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        text = " ".join(str(error).split())
        client.fail(f"{kind.__name__}: {text}" if text else kind.__name__)
        before(kind, error, traceback)

    sys.excepthook = note
