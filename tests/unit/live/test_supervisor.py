"""Processes of a run: their output is kept, failures are reported, and all can be ended."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from hangs import HANGS_SECONDS
from neaptide.live.runs.launching import JobCommand
from neaptide.live.runs.supervisor import JobResult, Supervisor, last_lines_of


def job(name: str, program: str) -> JobCommand:
    return JobCommand(name=name, command=(sys.executable, "-c", program))


def start(supervisor: Supervisor, *jobs: JobCommand) -> None:
    supervisor.start(jobs, lambda each: {**os.environ, "NAME": each.name})


def wait_until_all_have_ended(supervisor: Supervisor) -> dict[str, JobResult]:
    until = monotonic() + HANGS_SECONDS
    while supervisor.running:
        assert monotonic() < until
        supervisor.poll()
        sleep(0.01)
    return {result.name: result for result in supervisor.results}


def wait_for_output(path: Path) -> None:
    until = monotonic() + HANGS_SECONDS
    while not path.exists() or not path.read_bytes():
        assert monotonic() < until
        sleep(0.01)


def test_a_job_s_output_is_kept_and_it_has_its_own_environment(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    program = "import os, sys; print(os.environ['NAME']); print('problem', file=sys.stderr)"
    start(supervisor, job("a", program), job("b", program))
    results = wait_until_all_have_ended(supervisor)
    assert not any(result.failed for result in results.values())
    printed = {name: set((tmp_path / result.output).read_text().split()) for name, result in results.items()}
    assert printed == {"a": {"a", "problem"}, "b": {"b", "problem"}}


def test_the_result_of_a_failed_job_has_its_last_lines_and_the_others_go_on(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, last_lines=2)
    start(
        supervisor,
        job("bad", "[print(i) for i in range(9)]; raise SystemExit(3)"),
        job("good", "import time; time.sleep(0.3)"),
    )
    results = wait_until_all_have_ended(supervisor)
    assert results["bad"].failed
    assert (results["bad"].how, results["bad"].last_lines) == ("exit code 3", ("7", "8"))
    assert not results["good"].failed


def test_the_result_of_a_job_names_the_signal_that_ended_it(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    start(supervisor, job("a", "import os; os.kill(os.getpid(), 9)"))
    result = wait_until_all_have_ended(supervisor)["a"]
    assert (result.failed, result.how) == (True, "SIGKILL")


def test_a_job_that_is_asked_to_end_gets_a_keyboard_interrupt(tmp_path: Path) -> None:
    program = "import time\ntry:\n print('up', flush=True); time.sleep(99)\nexcept KeyboardInterrupt: print('saved')"
    supervisor = Supervisor(tmp_path)
    start(supervisor, job("a", program))
    wait_for_output(tmp_path / "a.log")
    supervisor.end()
    result = wait_until_all_have_ended(supervisor)["a"]
    assert (result.code, result.failed) == (0, False)
    assert (tmp_path / result.output).read_text().endswith("saved\n")


@pytest.mark.parametrize(("deaf_to", "code"), [("SIGINT", -signal.SIGTERM), ("SIGINT, SIGTERM", -signal.SIGKILL)])
def test_a_job_that_ignores_a_signal_gets_a_stronger_one(tmp_path: Path, deaf_to: str, code: int) -> None:
    program = (
        "import signal, time; from signal import *\n"
        f"for each in ({deaf_to},): signal(each, SIG_IGN)\n"
        "print('up', flush=True); time.sleep(99)"
    )
    supervisor = Supervisor(tmp_path, seconds_to_end=0.1)
    start(supervisor, job("a", program))
    wait_for_output(tmp_path / "a.log")
    supervisor.end()
    result = wait_until_all_have_ended(supervisor)["a"]
    assert (result.code, result.failed, result.asked_to_end) == (code, False, True)


def test_a_stopped_job_can_be_ended(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    start(supervisor, job("a", "import os, time; print(os.getpid(), flush=True); time.sleep(99)"))
    wait_for_output(tmp_path / "a.log")
    os.kill(int((tmp_path / "a.log").read_text()), signal.SIGSTOP)
    supervisor.end()
    assert wait_until_all_have_ended(supervisor)["a"].code == -signal.SIGINT  # and not SIGKILL at last


def test_a_command_that_cannot_be_run_ends_the_others(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    missing = JobCommand(name="b", command=("/nowhere/program",))
    with pytest.raises(ValueError, match="job b: cannot run /nowhere/program: No such file or directory"):
        start(supervisor, job("a", "import time; time.sleep(99)"), missing)
    assert supervisor.running == []


def test_the_last_lines_have_no_empty_line_and_no_overwritten_text(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"first\n\n10%\r20%\r30%\nlast \xff\n\n")
    assert last_lines_of(path, 2) == ("30%", "last \N{REPLACEMENT CHARACTER}")
    assert last_lines_of(tmp_path / "none", 2) == ()
