"""NVIDIA's multi-process service (MPS) beside a daemon: kernels of two jobs run together, not in time slices.

The service is this user's own: its sockets and its log are in the folder of the daemon's board. A small process starts
it and waits for the end of the daemon, however that comes. Then the service takes no new clients and ends when the last
of its jobs has; a job that runs on keeps it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from neaptide.core.text import complain

CONTROL = "nvidia-cuda-mps-control"
LOST = "kernels of two jobs take time slices instead of running together"
_LINK = "mps"  # beside the board: names the folder of the service that new jobs use
_BELOW_NORMAL = "1"  # of the two priorities that a client may have; 0 is normal
_START_SECONDS = 30.0


def find_control() -> str | None:
    """The program that controls the service."""
    return shutil.which(CONTROL)


def environment(board: Path, best_effort: bool) -> dict[str, str]:
    """The variables by which a job uses the service beside its board; none where there is no service."""
    folder = board.parent / _LINK
    if not folder.is_dir():
        return {}
    priority = {"CUDA_MPS_CLIENT_PRIORITY": _BELOW_NORMAL} if best_effort else {}
    return {**_variables(folder.resolve()), **priority}


@contextmanager
def beside(board: Path) -> Iterator[None]:
    """While inside, jobs of the board find a service, if there is a program for it (`CudaBoardSettings.lost`)."""
    if find_control() is None:
        yield
        return
    watch = subprocess.Popen(
        [sys.executable, "-m", __name__, str(board.parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C ends the daemon, and the daemon's end the service
    )
    assert watch.stdin is not None
    assert watch.stdout is not None
    try:
        if problem := watch.stdout.readline().strip():
            complain(f"{CONTROL} did not start ({problem}): {LOST}")
        yield
    finally:
        watch.stdin.close()
        watch.stdout.read()  # until no new job finds the service
        watch.stdout.close()
        watch.returncode = 0  # it may wait for jobs that go on


def _variables(folder: Path) -> dict[str, str]:
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}


def _start(folder: Path) -> str:
    """Start the service; what is in the way, or nothing."""
    for name in ("pipe", "log"):
        (folder / name).mkdir(mode=0o700, parents=True)
    try:
        done = subprocess.run(
            [CONTROL, "-d"],
            env=os.environ | _variables(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_START_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return " ".join(done.stdout.split()) or f"exit code {done.returncode}"


def _say(line: str) -> None:
    with suppress(OSError):  # the daemon may be gone
        os.write(1, f"{line}\n".encode())


def main(parent: str) -> int:
    """Keep a service for the daemon that holds the other end of the standard input."""
    folder, link = Path(parent) / f"{_LINK}-{os.getpid()}", Path(parent) / _LINK
    shutil.rmtree(folder, ignore_errors=True)
    problem = _start(folder)
    if problem:
        shutil.rmtree(folder, ignore_errors=True)
        _say(problem)
        return 1
    new = Path(f"{link}.{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(folder.name)
    new.replace(link)
    _say("")
    os.chdir("/")  # no folder stays in use
    os.read(0, 1)  # nothing is ever written: the end of the daemon ends it
    with suppress(OSError):
        if os.readlink(link) == folder.name:
            link.unlink()
    os.close(1)
    # Waits for the jobs that still use the service.
    subprocess.run([CONTROL], env=os.environ | _variables(folder), input="quit\n", text=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
