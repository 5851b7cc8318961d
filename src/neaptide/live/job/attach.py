"""Makes this process a job of the daemon: the program calls `neaptide.attach`, or `neaptide run` has it attached.

NEAPTIDE_DEVICE is the device, NEAPTIDE_SOCKET the socket of its daemon, beside which is the board, and NEAPTIDE_JOB the
job's name. NEAPTIDE_KIND (training or inference), _ITERATIONS, _PRIORITY and _DEADLINE (seconds for one batch) stand
for the arguments of `attach`. A device may read variables of its own.
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neaptide.core.control.job import JobKind
from neaptide.devices import chosen_device, find_kind
from neaptide.live.protocol.paths import RuntimePaths, runtime_paths

if TYPE_CHECKING:
    from neaptide.live.job.client import Client

_NAME_BYTES = 63
_attached: list[Client] = []  # one client when this process is a job, else none


def attach(
    name: str | None = None,
    *,
    kind: str = "training",
    iterations: int | None = None,
    priority: int = 0,
    deadline_seconds: float | None = None,
) -> None:
    """Let this process share the device under the daemon, from its first operation on the device on.

    Call it before the device is used. `kind` is `training` or `inference`; every call of an inference job's model is a
    request, and `deadline_seconds` is the time in which a request should be served. Under `neaptide run` the process is
    attached already, and these arguments replace what the daemon is told of the job.
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
    """As `attach`, with arguments from the environment."""
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


def _join(name: str, kind: JobKind, iterations: int | None, priority: int, deadline_seconds: float | None) -> None:
    from neaptide.live.job.client import Client, JobSettings

    settings = JobSettings(
        name=name.encode()[:_NAME_BYTES].decode(errors="ignore"),
        kind=kind,
        iterations=iterations,
        priority=priority,
        deadline_seconds=deadline_seconds,
    )
    if _attached:
        _attached[0].settings = settings
        return
    named = os.environ.get("NEAPTIDE_SOCKET")
    paths = RuntimePaths(Path(named).parent) if named else runtime_paths()
    socket = Path(named) if named else paths.socket
    if not named and not socket.exists():
        raise ValueError(f"there is no daemon at {socket}; start one with `neaptide up`")
    device = chosen_device()
    agent = find_kind(device.kind).attach(paths.board, settings.name, device.index)

    from neaptide.capture.boundaries import Boundaries
    from neaptide.live.job.connection import Connection
    from neaptide.live.job.first_iterations import FirstIterations

    client = Client(agent, settings, lambda: FirstIterations(agent))
    connection = Connection(client, agent, socket)
    boundaries = Boundaries(client, agent.device_type)

    def leave() -> None:
        boundaries.remove()
        connection.leave()

    def forget() -> None:
        boundaries.remove()
        connection.forget_after_fork()

    _attached.append(client)
    atexit.register(leave)  # registered after the device's own handler, so it runs before the device stops
    os.register_at_fork(after_in_child=forget)
    _note_failures(client)
    boundaries.install()
    connection.start()


def _note_failures(client: Client) -> None:
    """Report the error that ends the program to the daemon; what Python prints does not change."""
    before = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        text = " ".join(str(error).split())
        client.fail(f"{kind.__name__}: {text}" if text else kind.__name__)
        before(kind, error, traceback)

    sys.excepthook = note
