"""One command as a job in the foreground: it keeps the terminal, and its exit code is returned."""

from __future__ import annotations

import signal

from neaptide.core.text import complain
from neaptide.devices.interface import DeviceSettings
from neaptide.live.runs.attendance import NOT_SHARED, WARNING, some_job_came, status_now
from neaptide.live.runs.daemon_for_run import DaemonRequest, daemon_for_command
from neaptide.live.runs.interrupts import interruptible, noted_interrupts
from neaptide.live.runs.keeping import KeptProcess
from neaptide.live.runs.launching import JobCommand, environment_of
from neaptide.live.runs.unseen import telling_of_unseen

_POLL_SECONDS = 0.05


def run_command(job: JobCommand, device: DeviceSettings, wanted: DaemonRequest) -> int:
    """Run a command until it ends; its exit code, as a shell would report it. Signals are passed on to it.

    A command that ends well and was not shared has exit code 3.
    """
    ignores = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # in the background of a shell script
    with interruptible(), daemon_for_command(wanted) as paths, noted_interrupts() as interrupts:
        before = status_now(paths)
        try:
            process = KeptProcess(job.command, environment_of(job, device, paths), job.directory, None, ignores)
        except OSError as error:
            raise ValueError(f"cannot run {job.command[0]}: {error.strerror}") from None
        with telling_of_unseen(paths.socket, [job.name], lambda _, line: complain(line)):
            while (code := process.wait(_POLL_SECONDS)) is None:
                while interrupts:
                    process.signal(interrupts.popleft())
        shared = some_job_came(before, status_now(paths))
    if code == 0 and not shared:
        complain(WARNING)
        return NOT_SHARED
    return code if code >= 0 else 128 - code
