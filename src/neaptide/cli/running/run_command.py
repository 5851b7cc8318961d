"""One command as a job in the foreground: it keeps the terminal, and its exit code is returned."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from neaptide.devices.interface import DeviceSettings
from neaptide.live.protocol.lock import running_pid
from neaptide.live.runs.daemon_for_run import DaemonRequest, daemon_for_command, jobs_left
from neaptide.live.runs.launching import JobCommand, environment_of


def run_command(job: JobCommand, device: DeviceSettings, wanted: DaemonRequest) -> int:
    """Run a command until it ends; its exit code, as a shell would report it."""
    with daemon_for_command(wanted) as paths:
        try:
            process = subprocess.Popen(job.command, env=environment_of(job, device, paths), cwd=job.directory)
        except OSError as error:
            raise ValueError(f"cannot run {job.command[0]}: {error.strerror}") from None
        with _signals_go_to(process):
            code = process.wait()
        others = jobs_left(paths)
    if others and running_pid(paths) is not None and not wanted.private:
        print(f"neaptide: the daemon goes on for {others} other jobs; neaptide down ends it", file=sys.stderr)
    return code if code >= 0 else 128 - code


@contextmanager
def _signals_go_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass on signals that are sent to this process alone; Ctrl-C in a terminal reaches the job by itself."""

    def pass_on(number: int, _: FrameType | None) -> None:
        if process.poll() is None:
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
