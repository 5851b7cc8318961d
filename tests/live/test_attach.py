"""Every process that uses the device under a daemon is a job, or says why it is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemons import until
from neaptide.core.control.job import DisplayState
from neaptide.devices import default_kind
from neaptide.devices.board.figures import SLOTS
from neaptide.devices.board.port import Port
from neaptide.live.runs.launching import JobCommand, environment_of
from real_jobs import RealDaemon, StartDaemon

MIB = 1 << 20
SECONDS = 120.0
ATTACHED = "neaptide: attached as {} to soft:0, budget 64.0 MiB, policy neaptide"
TRAIN = """
def train(device, steps=4):
    import torch
    torch.manual_seed(0)
    network = torch.nn.Linear(64, 64).to(device)
    update = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(steps):
        update.zero_grad()
        network(torch.ones(8, 64, device=device)).square().mean().backward()
        update.step()
    return network.weight.device.type
"""


def begin(daemon: RealDaemon, command: tuple[str, ...], folder: Path, **more: str) -> subprocess.Popen[str]:
    inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}
    job = JobCommand(name="job", command=command)
    settings = default_kind().settings_type(sms=1)
    process = subprocess.Popen(
        command,
        env=environment_of(job, settings, daemon.paths, inherited),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    daemon.processes.append(process)
    return process


def ended(process: subprocess.Popen[str]) -> tuple[str, list[str]]:
    """What a process printed, and the lines of neaptide on stderr."""
    out, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    return out, [line for line in errors.splitlines() if line.startswith("neaptide:")]


ASKS_FIRST = f"""
import importlib.util, json, os
# As transformers, datasets, peft, accelerate and lightning do before anything imports torch.
assert importlib.util.find_spec("torch") is not None
assert importlib.util.find_spec("torch") is not None
import torch
{TRAIN}
seen = {{"used before": torch.cuda.is_initialized(), "device": train("cuda")}}

def error_of(use):
    try:
        use()
    except BaseException as error:
        return type(error).__name__ + ": " + str(error)

seen["cuda:1"] = [
    error_of(lambda: torch.ones(1, device="cuda:1")),
    error_of(lambda: torch.ones(1).to("cuda:1")),
    error_of(lambda: torch.ones(1).cuda(1)),
    error_of(lambda: torch.cuda.set_device(1)),
    error_of(lambda: torch.cuda.synchronize("cuda:1")),
    error_of(lambda: torch.Generator("cuda:1")),
    error_of(lambda: torch.cuda.current_stream(1)),
    error_of(lambda: torch.cuda.default_stream("cuda:1")),
    error_of(lambda: torch.cuda.Stream(device=1)),
    error_of(lambda: torch.cuda.get_device_name(1)),
    error_of(lambda: torch.cuda.memory_allocated(1)),
]
torch.cuda.set_per_process_memory_fraction(0.25)
kept = [torch.empty(1 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
seen["beyond"] = error_of(lambda: [torch.empty(1 << 20, dtype=torch.uint8, device="cuda") for _ in range(24)])
seen["held"] = torch.cuda.memory_reserved()
seen["fraction"] = torch.cuda.get_per_process_memory_fraction()
torch.cuda.set_per_process_memory_fraction(1.0)
more = torch.empty(24 << 20, dtype=torch.uint8, device="cuda")

read, write = os.pipe()
if os.fork() == 0:
    os.write(write, error_of(lambda: torch.ones(1, device="cuda")).encode())
    os._exit(0)
os.wait()
seen["forked"] = os.read(read, 1000).decode()
print(json.dumps(seen))
"""


def test_a_job_attaches_whoever_asked_for_torch_before_and_answers_as_cuda_does(
    start: StartDaemon, tmp_path: Path
) -> None:
    daemon = start("neaptide", 64 * MIB)
    out, lines = ended(begin(daemon, (sys.executable, "-c", ASKS_FIRST), tmp_path))
    seen = json.loads(out)
    assert lines == [ATTACHED.format("job")]
    assert (seen["used before"], seen["device"]) == (False, "cuda")
    for error in seen["cuda:1"]:
        assert error.startswith("RuntimeError: "), seen["cuda:1"]
        assert "invalid device ordinal" in error
    assert seen["beyond"].startswith("OutOfMemoryError: ")
    assert "set_per_process_memory_fraction" in seen["beyond"]
    assert 8 * MIB <= seen["held"] <= 16 * MIB
    assert seen["fraction"] == 0.25
    assert seen["forked"].startswith("RuntimeError: Cannot re-initialize")
    assert "spawn" in seen["forked"]
    assert [job.name for job in daemon.status().jobs] == ["job"]


SPAWNS = f"""
import json, multiprocessing
{TRAIN}

class Numbers:
    def __len__(self):
        return 4
    def __getitem__(self, index):
        import torch
        torch.manual_seed(index)
        return torch.rand(2)

def child(rank, answers):
    answers.put(train("cuda"))

def forked(answers):
    answers.put(train("cuda"))

if __name__ == "__main__":
    import torch, torch.multiprocessing
    spawning = multiprocessing.get_context("spawn")
    loader = torch.utils.data.DataLoader(Numbers(), num_workers=2, multiprocessing_context="spawn")
    loaded = sum(len(batch) for batch in loader)
    answers = spawning.SimpleQueue()
    torch.multiprocessing.spawn(child, (answers,), nprocs=2)
    forking = multiprocessing.get_context("fork")
    process = forking.Process(target=forked, args=(answers,))  # before this process has used the device
    process.start()
    seen = [answers.get() for _ in range(3)]
    process.join()
    print(json.dumps([loaded, seen, process.exitcode, torch.cuda.is_initialized()]))
"""


def test_children_that_use_the_device_are_jobs_and_all_others_are_none(start: StartDaemon, tmp_path: Path) -> None:
    (tmp_path / "spawns.py").write_text(SPAWNS)
    script = tmp_path / "train.sh"
    script.write_text(f"sh -c '{sys.executable} -m spawns'\n")
    daemon = start("neaptide", 64 * MIB)
    out, lines = ended(begin(daemon, ("bash", str(script)), tmp_path))
    assert json.loads(out) == [4, ["cuda", "cuda", "cuda"], 0, False]
    seen = daemon.status().jobs
    assert len(seen) == 3
    assert {job.state for job in seen} == {DisplayState.DONE}
    assert sorted(lines) == sorted(ATTACHED.format(job.name) for job in seen)
    assert {job.name for job in seen} <= {"job", "job-2", "job-3"}


def test_attach_in_a_notebook_and_under_run(start: StartDaemon, tmp_path: Path) -> None:
    daemon = start("neaptide", 64 * MIB)
    code = f"{{first}}\nimport neaptide\nneaptide.attach('mine')\nimport torch\n{TRAIN}\nprint(train('cuda'))"
    before, after = code.format(first=""), code.format(first="import torch; torch.cuda.is_available()")
    alone = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NEAPTIDE_RUNTIME": str(daemon.paths.folder)}
    alone["NEAPTIDE_SOFT_SMS"] = "1"
    notebooks = [
        subprocess.Popen(
            [sys.executable, "-c", each], env=alone, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for each in (before, after)
    ]
    daemon.processes += notebooks
    under_run = begin(daemon, (sys.executable, "-c", before), tmp_path)
    names = []
    for process in (*notebooks, under_run):
        out, lines = ended(process)
        assert out == "cuda\n"
        (line,) = lines
        names.append(line.split()[3])
    assert sorted(job.name for job in daemon.status().jobs) == sorted(names)
    assert all(name.startswith("mine") for name in names)


UNUSABLE = """
import sys
class Widget:
    def write(self, _): raise RuntimeError("it is gone")
    def flush(self): pass
sys.stderr = Widget()
"""


@pytest.mark.parametrize(
    ("to", "first"), [("2>/dev/full", ""), ("2>&-", ""), ("", UNUSABLE)], ids=["full", "closed", "unusable"]
)
def test_a_job_that_cannot_write_to_stderr_runs_and_ends_well(
    start: StartDaemon, tmp_path: Path, to: str, first: str
) -> None:
    daemon = start("neaptide", 64 * MIB)
    code = f"{first}{TRAIN}\nimport torch\nprint(train('cuda', 12))"
    out, _ = ended(begin(daemon, ("sh", "-c", f'exec "$@" {to}', "sh", sys.executable, "-c", code), tmp_path))
    assert out == "cuda\n"
    assert [job.state for job in daemon.status().jobs] == [DisplayState.DONE]


def test_a_job_without_a_free_slot_says_so_and_runs_when_there_is_one(start: StartDaemon, tmp_path: Path) -> None:
    daemon = start("neaptide", 64 * MIB)
    others = [Port(daemon.board, f"other {number}") for number in range(SLOTS)]
    process = begin(daemon, (sys.executable, "-c", f"{TRAIN}\nimport torch\nprint(train('cuda'))"), tmp_path)
    until(lambda: daemon.has("job", DisplayState.NOT_SHARED), "the job to be shown as not shared", SECONDS)
    assert "slots are taken" in daemon.job("job").reason
    others.pop().leave()
    out, (said, attached) = ended(process)
    assert out == "cuda\n"
    assert "is not shared: " in said
    assert "slots are taken; it waits until another job ends" in said
    assert attached == ATTACHED.format("job")
    assert [job.state for job in daemon.status().jobs] == [DisplayState.DONE]
    for other in others:
        other.leave()


def test_a_job_whose_torch_works_on_the_cpu_is_told_at_once(start: StartDaemon, tmp_path: Path) -> None:
    daemon = start("neaptide", 64 * MIB)
    code = f"{TRAIN}\nimport sys\nprint(train('cpu', 1), flush=True)\nsys.stdin.readline()"
    plain = begin(daemon, (sys.executable, "-c", code), tmp_path)
    missing = {"CXX": "/no/compiler", "NEAPTIDE_CACHE": str(tmp_path / "cache")}
    unbuilt = begin(daemon, (sys.executable, "-c", f"import torch, sys\n{code}"), tmp_path, **missing)
    until(lambda: len(daemon.status().jobs) == 2, "both to be shown", SECONDS)
    reasons = {job.pid: job.reason for job in daemon.status().jobs if job.state is DisplayState.NOT_SHARED}
    assert reasons[plain.pid] == "its torch works on the CPU; it is shared from its first use of the device on"
    assert "'/no/compiler' was not found" in reasons[unbuilt.pid]
    for process in (plain, unbuilt):
        out, (line,) = ended(process)
        assert out == "cpu\n"
        assert line == f"neaptide: job job (process {process.pid}) is not shared: {reasons[process.pid]}"
    until(lambda: not daemon.status().jobs, "processes that have ended to be forgotten")


SAVES_AT_EXIT = """
import atexit, torch

def save():
    print(float((held + 1).sum()))

atexit.register(save)
held = torch.ones(4, device="cuda")
"""


def test_handlers_of_a_programs_end_use_the_device_and_the_job_ends_after_them(
    start: StartDaemon, tmp_path: Path
) -> None:
    daemon = start("neaptide", 64 * MIB)
    out, ours = ended(begin(daemon, (sys.executable, "-c", SAVES_AT_EXIT), tmp_path))
    assert (out, ours) == ("8.0\n", [ATTACHED.format("job")])
    until(lambda: daemon.job("job").state is DisplayState.DONE, "it to have ended")
    daemon.check_memory()
