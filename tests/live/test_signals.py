"""The handlers of a program's signals run while the job waits for others: it ends, saves or stops when it is asked."""

from __future__ import annotations

import signal
import subprocess

from daemons import MIB, until
from hangs import HANGS_SECONDS as SECONDS
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.messages import Done, SetBudget
from real_jobs import RealDaemon, StartDaemon

# It launches on its main thread alone: while a backward pass runs, Python handles no signal, with neaptide or without.
PROGRAM = """
import signal, torch

class Asked(Exception):
    pass

def ask(*_):
    raise Asked

signal.signal(signal.SIGUSR1, ask)
signal.signal(signal.SIGUSR2, lambda *_: print("sum", float(held.sum()), flush=True))
held = torch.ones(8 << 20, device="cuda")
print("ready", flush=True)
try:
    while True:
        other = held + 1
except KeyboardInterrupt:
    print("interrupted")
except Asked:
    print("asked", flush=True)
    print("then", float((held + 1).sum()))
"""


def set_budget(daemon: RealDaemon, mib: int) -> None:
    assert isinstance(ask(daemon.paths, SetBudget(mib * MIB)), Done)


def is_away(daemon: RealDaemon) -> bool:
    return daemon.board.snapshot().used_bytes <= 4 * MIB


def begin(daemon: RealDaemon) -> subprocess.Popen[str]:
    job = daemon.program("job", PROGRAM)
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    return job


def test_a_job_in_host_memory_ends_when_it_is_interrupted(start: StartDaemon) -> None:
    daemon = start("neaptide", 128 * MIB)
    job = begin(daemon)
    set_budget(daemon, 4)
    until(lambda: is_away(daemon), "it to be evicted")
    job.send_signal(signal.SIGINT)
    out, _ = job.communicate(timeout=SECONDS)
    assert (out, job.returncode) == ("interrupted\n", 0)


def test_an_exception_of_a_handler_reaches_the_program_while_its_memory_is_away(start: StartDaemon) -> None:
    daemon = start("neaptide", 128 * MIB)
    job = begin(daemon)
    set_budget(daemon, 4)
    until(lambda: is_away(daemon), "it to be evicted")
    job.send_signal(signal.SIGUSR1)
    assert job.stdout is not None
    assert job.stdout.readline() == "asked\n"
    assert is_away(daemon)
    set_budget(daemon, 128)
    out, _ = job.communicate(timeout=SECONDS)
    assert (out, job.returncode) == (f"then {float(2 * (8 << 20))}\n", 0)


def test_a_handler_that_uses_the_device_waits_for_it(start: StartDaemon) -> None:
    daemon = start("neaptide", 128 * MIB)
    job = begin(daemon)
    set_budget(daemon, 4)
    until(lambda: is_away(daemon), "it to be evicted")
    job.send_signal(signal.SIGUSR2)
    set_budget(daemon, 128)
    assert job.stdout is not None
    assert job.stdout.readline() == f"sum {float(8 << 20)}\n"
    job.send_signal(signal.SIGINT)
    out, _ = job.communicate(timeout=SECONDS)
    assert (out, job.returncode) == ("interrupted\n", 0)
