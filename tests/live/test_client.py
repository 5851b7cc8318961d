"""What a job does under a daemon: a stand-in speaks with it, and the board shows what it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import neaptide
from neaptide.core.control.job import JobKind
from neaptide.core.traces.trace import Phase
from neaptide.core.traces.trace_format import decode
from neaptide.devices.board import SlotState
from neaptide.live.protocol import messages as say
from stand_in import SECONDS, SOURCE, StandIn, finished, wait_until

LOOP = """
import sys, torch
network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Dropout(0.5), torch.nn.Linear(256, 1)).to("soft")
update = torch.optim.Adam(network.parameters())
for step in range(int(sys.argv[1])):
    update.zero_grad()
    loss = network(torch.randn(32, 64).to("soft")).square().mean()
    loss.backward()
    update.step()
    if step % 10 == 0:
        loss.item()
"""
# The step before the optimizer is known, one that settles, and three whose kernels are logged.
MEASURED = 5

TRAINED = """
import hashlib
from training import train
run = train("resnet18", "soft", "adamw", steps=10)
print(hashlib.sha256(b"".join(each.numpy().tobytes() for each in (*run.losses, *run.parameters))).hexdigest())
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[StandIn]:
    stand_in = StandIn(tmp_path)
    stand_in.start()
    yield stand_in
    stand_in.close()


def plain(code: str, folder: Path, *arguments: str, **more: str) -> str:
    """What the program prints without a daemon."""
    environment = {**os.environ, "NEAPTIDE_SOFT_SMS": "1", "NEAPTIDE_SOFT_BOARD": str(folder / "other")}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (SOURCE, Path(__file__).parents[1] / "soft")))
    command = [sys.executable, "-c", f"import neaptide.devices.soft\n{code}", *arguments]
    return subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, check=True).stdout


def test_an_unchanged_program_is_measured_then_waits_for_permits_and_ends_with_the_same_numbers(
    daemon: StandIn, tmp_path: Path
) -> None:
    daemon.after_profiled = lambda _: None
    job = daemon.run(TRAINED)
    (hello,) = daemon.wait_for(say.Hello)
    assert (hello.pid, hello.job, hello.kind, hello.trace) == (job.pid, "job", JobKind.TRAINING, None)
    (profiled,) = daemon.wait_for(say.Profiled)
    trace = decode(profiled.trace)
    assert profiled.measured == MEASURED
    assert set(trace.ops.phase.tolist()) == {Phase.FORWARD, Phase.BACKWARD}
    assert trace.persistent_bytes < trace.peak_bytes < daemon.board.snapshot().high_water_bytes

    def waits_at(iteration: int) -> bool:
        seen = daemon.board.progress(daemon.slot)
        return seen.state is SlotState.WAITING_PERMIT and seen.iteration == iteration + 1

    wait_until(lambda: waits_at(0))
    assert not daemon.all(say.IterationEnded)
    daemon.board.set_permit(daemon.slot, 1)
    daemon.wait_for(say.IterationEnded, 1)
    wait_until(lambda: waits_at(1))  # the gate holds every iteration, not only the first
    daemon.permit_many()
    assert finished(job) == plain(TRAINED, tmp_path)
    daemon.wait_for(say.Goodbye)
    said = [message for message in daemon.heard if isinstance(message, say.PhaseEnded | say.IterationEnded)]
    assert [type(each) for each in said] == [say.PhaseEnded, say.IterationEnded] * (10 - MEASURED)
    ended = daemon.all(say.IterationEnded)
    assert [each.index for each in ended] == list(range(10 - MEASURED))
    assert all(0 < each.took_ns < 60e9 for each in ended)
    assert {each.phase for each in daemon.all(say.PhaseEnded)} == {Phase.FORWARD}


def test_a_job_goes_on_without_its_daemon_and_joins_the_next_one(daemon: StandIn) -> None:
    daemon.after_profiled = lambda _: None  # the job waits for its first permit when the daemon dies
    job = daemon.run(LOOP, "1000000")
    try:
        daemon.wait_for(say.Profiled)
        wait_until(lambda: daemon.board.progress(daemon.slot).state is SlotState.WAITING_PERMIT)
        daemon.stop()
        wait_until(lambda: daemon.board.progress(daemon.slot).iteration > 20)
        daemon.start()
        _, hello = daemon.wait_for(say.Hello, 2)
        assert hello.resumed
        assert hello.trace == daemon.all(say.Profiled)[0].trace
        assert daemon.board.progress(hello.slot).iteration >= hello.ended >= 20
        first = daemon.wait_for(say.IterationEnded)[0]
        assert first.index >= hello.ended - 1  # none is missing in between
    finally:
        job.kill()
        job.communicate()
    assert daemon.board.snapshot().used_bytes > 0
    wait_until(lambda: daemon.board.reap() == 1)  # who reads a dead process in /proc keeps its lock for a moment
    assert daemon.board.snapshot().used_bytes == 0
    assert not daemon.board.snapshot().slots


def test_a_job_that_is_refused_ends_with_an_out_of_memory_error(daemon: StandIn) -> None:
    daemon.after_profiled = lambda _: say.JobRefused("it needs 9 GiB and the budget is 1 GiB")
    job = daemon.run(LOOP, "1000000")
    _, errors = job.communicate(timeout=SECONDS)
    assert job.returncode == 1
    assert "\nneaptide: job job was refused: it needs 9 GiB and the budget is 1 GiB\n" in f"\n{errors}"
    assert "OutOfMemoryError: neaptide: job job was refused: it needs 9 GiB" in errors.splitlines()[-1]


def test_a_job_that_waits_for_the_daemon_can_be_interrupted(daemon: StandIn) -> None:
    daemon.welcomes = False
    job = daemon.run(LOOP, "1000000")
    daemon.wait_for(say.Hello)
    job.send_signal(signal.SIGINT)
    _, errors = job.communicate(timeout=SECONDS)
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert daemon.wait_for(say.Failed)[0].reason == "KeyboardInterrupt"


def test_a_program_can_attach_itself_and_every_call_of_an_inference_job_is_a_request(daemon: StandIn) -> None:
    code = """
import neaptide
neaptide.attach("served", kind="inference", deadline_seconds=0.5, priority=3)
import torch
network = torch.nn.Linear(64, 64).to("soft").eval()
with torch.no_grad():
    for _ in range(20):
        network(torch.ones(8, 64).to("soft"))
"""
    finished(daemon.run(code, PYTHONPATH=str(SOURCE)))
    hello = daemon.wait_for(say.Hello)[0]
    assert (hello.job, hello.kind, hello.deadline_seconds, hello.priority) == ("served", JobKind.INFERENCE, 0.5, 3)
    measured = daemon.wait_for(say.Profiled)[0].measured
    daemon.wait_for(say.Goodbye)
    assert len(daemon.all(say.RequestArrived)) == len(daemon.all(say.IterationEnded)) == 20 - measured
    assert not daemon.all(say.PhaseEnded)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "there is no daemon at .*; start one with `neaptide up`"),
        ({"kind": "dreaming"}, "kind must be training or inference, not 'dreaming'"),
        ({"iterations": 0}, "iterations must be between 1 and 4294967295, not 0"),
        ({"deadline_seconds": 0.0}, "the time for a batch must be positive and at most 1000000 s, not 0 s"),
    ],
)
def test_a_wrong_argument_of_attach_is_refused_in_one_line(
    given: dict[str, Any], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEAPTIDE_RUNTIME", str(tmp_path))
    monkeypatch.delenv("NEAPTIDE_SOCKET", raising=False)
    with pytest.raises(ValueError, match=problem):
        neaptide.attach(**given)


def test_a_program_that_evaluates_before_it_trains_is_measured_again(daemon: StandIn) -> None:
    code = """
import torch
network = torch.nn.Linear(64, 64).to("soft")
update = torch.optim.SGD(network.parameters(), lr=0.1)
for epoch in range(3):
    network.eval()
    with torch.no_grad():
        for _ in range(20):
            network(torch.ones(8, 64).to("soft"))
    network.train()
    for _ in range(40000 if epoch == 0 else 20):
        network(torch.ones(8, 64).to("soft")).sum().backward()
        update.step()
        update.zero_grad()
"""
    job = daemon.run(code)
    serving, training = (decode(profiled.trace) for profiled in daemon.wait_for(say.Profiled, 2)[:2])
    job.kill()
    job.communicate()
    assert len(daemon.all(say.Hello)) == 1
    assert set(serving.ops.phase.tolist()) == {Phase.INFERENCE}
    assert Phase.BACKWARD in training.ops.phase


def test_a_process_that_is_no_job_is_not_watched(daemon: StandIn, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('own', flush=True)\n")
    environment = daemon.environment()
    environment["PYTHONPATH"] += f"{os.pathsep}{tmp_path / 'own'}"

    def run(code: str, **more: str) -> list[str]:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    seen = "import sys; print(sorted(name for name in sys.modules if name.startswith('neaptide')))"
    assert run(seen) == ["own", "[]"]  # it never imports torch
    socket = environment.pop("NEAPTIDE_SOCKET")
    assert run(f"import torch; {seen}") == ["own", "[]"]
    environment["NEAPTIDE_SOCKET"] = socket
    workers = """
import torch
from torch import nn
from torch.utils.data import DataLoader
print(torch.soft.is_available(), nn.Module.__call__.__module__)
torch.soft.mem_get_info()  # from now on no child that is forked can use the device
class Squares(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): return nn.Module.__call__.__module__
for names in DataLoader(Squares(), batch_size=4, num_workers=1):
    print(set(names))
"""
    watched, plainly = "neaptide.capture.boundaries", "torch.nn.modules.module"
    assert run(workers) == ["own", f"True {watched}", f"{{'{plainly}'}}"]
    assert not daemon.heard  # it imported torch and launched nothing
