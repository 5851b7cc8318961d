"""A job that has run out of file descriptors when it joins the daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemons import SECONDS, DaemonThread, goes_on

PROGRAM = """
import os, resource, sys, threading
from pathlib import Path
from fake_job import FakeJob, FakeJobSpec

job = FakeJob(Path(sys.argv[1]), Path(sys.argv[2]), FakeJobSpec(name="poor", iterations=20))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    for _ in range(int(sys.argv[3])):
        os.close(taken.pop())
threading.Timer(2, lambda: [os.close(each) for each in taken]).start()
job.run()
print(job.done)
"""


@pytest.mark.parametrize("free", [0, 1, 2])
def test_a_job_with_few_free_descriptors_joins_later_and_its_neighbour_goes_on(free: int, daemon: DaemonThread) -> None:
    neighbour = daemon.run(name="neighbour", iterations=100_000)
    goes_on(neighbour)
    here = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", PROGRAM, str(daemon.paths.socket), str(daemon.paths.board), str(free)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    daemon.processes.append(process)
    goes_on(neighbour)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (0, "20\n"), err
    goes_on(neighbour)
