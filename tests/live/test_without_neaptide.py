"""`neaptide run --without-neaptide`: the same jobs without a daemon, for comparison."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from hangs import HANGS_SECONDS
from neaptide.reporting.logs.live_run import live_run
from neaptide.reporting.logs.run_folder import REPORT, read_run
from neaptide_command import Command, wait_until

ON_THE_DEVICE = """
import torch
kept = torch.ones(4 << 20, device="cuda")  # 16 MiB
other = [torch.ones(4 << 20, device="cuda") for _ in range(N)]
torch.cuda.synchronize()
print("sum", float(kept.sum()))
"""


@pytest.fixture
def neaptide(tmp_path_factory: pytest.TempPathFactory) -> Command:
    return Command(tmp_path_factory.mktemp("n"))


def test_one_after_the_other_jobs_never_overlap_and_know_of_no_daemon(neaptide: Command) -> None:
    program = "import os, time; print(os.environ['NEAPTIDE_SOCKET'] == '', time.monotonic()); time.sleep(0.3)"
    end = "\nprint(time.monotonic())"
    neaptide.write(("b", program + end), ("a", program + end), top="budget = '64MiB'\npolicy = 'zico'")
    code, out, err = neaptide("run", "jobs.toml", "--without-neaptide", "one-after-the-other", "-o", "kept")
    assert (code, err) == (0, "")
    assert "one after the other, without neaptide: " in out
    first, second = ((neaptide.folder / "kept" / f"{name}.log").read_text().split() for name in "ba")
    assert (first[0], second[0]) == ("True", "True")
    assert float(first[2]) < float(second[1])
    run = live_run(read_run(neaptide.folder / "kept"))
    began = [result.began_seconds for result in run.results]
    assert began[0] + run.results[0].seconds <= began[1] < began[1] + run.results[1].seconds <= run.seconds
    assert (run.budget_bytes, run.row.policy, run.ended_well) == (64 << 20, "one after the other", True)
    assert [result.last_line for result in run.results] == [first[2], second[2]]
    assert (neaptide.folder / "kept" / REPORT).is_file()


def test_alone_a_job_has_the_whole_budget_and_at_once_it_runs_out_of_memory(neaptide: Command) -> None:
    job = ("a", ON_THE_DEVICE.replace("N", "1"))
    neaptide.write(job, ("b", ON_THE_DEVICE.replace("N", "1")), top="budget = '40MiB'")
    assert neaptide("run", "jobs.toml", "--without-neaptide", "one-after-the-other", "-o", "alone")[0] == 0
    alone = live_run(read_run(neaptide.folder / "alone"))
    assert 32 << 20 <= alone.row.peak_bytes <= 40 << 20
    assert alone.memory["a"].peak_bytes <= 40 << 20
    assert [result.last_line for result in alone.results] == ["sum 4194304.0"] * 2
    neaptide.write(("a", ON_THE_DEVICE.replace("N", "3")), ("b", "print(1)"), top="budget = '40MiB'")
    code, out, _ = neaptide("run", "jobs.toml", "--without-neaptide", "at-once", "--wait", "0s", "-o", "once")
    assert code == 1
    assert "OutOfMemoryError" in out


def test_an_interrupt_ends_the_job_that_runs_and_starts_no_other(neaptide: Command) -> None:
    program = "import time\nprint(1, flush=True)\ntime.sleep(99)"
    neaptide.write(("a", program), ("b", program))
    process = neaptide.begin("run", "jobs.toml", "--without-neaptide", "one-after-the-other", "-o", "kept")
    log = neaptide.folder / "kept" / "a.log"
    wait_until(lambda: log.is_file() and "1" in log.read_text())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 130
    assert not (neaptide.folder / "kept" / "b.log").exists()
    run = live_run(read_run(neaptide.folder / "kept"))
    assert [(result.name, result.asked_to_end) for result in run.results] == [("a", True), ("b", True)]


def test_a_later_job_that_cannot_be_started_has_failed_and_the_earlier_result_is_kept(neaptide: Command) -> None:
    jobs = "[[job]]\nname = 'a'\ncommand = ['python', '-c', 'print(7)']\n[[job]]\nname = 'b'\ncommand = './none'\n"
    Path(neaptide.folder, "jobs.toml").write_text(jobs)
    code, out, _ = neaptide("run", "jobs.toml", "--without-neaptide", "one-after-the-other", "-o", "kept")
    assert code == 1
    assert [result.code for result in read_run(neaptide.folder / "kept").file.results] == [0, 127]
    assert "cannot run ./none" in out
