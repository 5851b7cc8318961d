"""What may go wrong with real jobs under a budget that binds: whoever is left ends with the numbers of a run alone."""

from __future__ import annotations

import signal
import subprocess

import pytest

from daemons import MIB, kill, until
from neaptide.core.control.events import IterationEnded, JobGrew
from neaptide.core.control.job import JobKind
from neaptide.policies.files import find_policy
from neaptide.reporting.logs.log_file import read_runs
from neaptide.reporting.logs.replay import replay
from real_jobs import RealDaemon, StartDaemon, alone, budget_for, go_on, until_it_pauses, until_step

IMAGES = ("resnet18", "128", "20")
FEWER_IMAGES = ("resnet18", "64", "20")
TEXT = ("gpt2", "16", "20")
GROWING = ("resnet18", "64", "20", "train", "14")
SERVING = ("resnet18", "256", "20", "serve")


def stop_inside_an_iteration(daemon: RealDaemon, process: subprocess.Popen[str], most_bytes: int) -> None:
    """Stop it where it holds more than between its iterations, and no more than the other can spare."""
    slot = next(each.slot for each in daemon.board.snapshot().slots if each.pid == process.pid)

    def stopped_there() -> bool:
        process.send_signal(signal.SIGSTOP)
        until(lambda: daemon.state_of(process) == "T", "it to stop")
        seen = daemon.board.progress(slot)
        if seen.launched > seen.done and 14 * MIB <= seen.held_bytes <= most_bytes:
            return True
        process.send_signal(signal.SIGCONT)
        return False

    until(stopped_there, "it to be inside an iteration")


def test_a_job_stopped_in_its_iteration_and_the_other_end_with_the_same_numbers(
    start: StartDaemon,
) -> None:
    daemon = start("neaptide", int(0.75 * (alone(IMAGES).peak_bytes + alone(FEWER_IMAGES).peak_bytes)))
    stopped, other = daemon.begin("stopped", IMAGES, pauses=True), daemon.begin("other", FEWER_IMAGES, pauses=True)
    for job in (stopped, other):
        until_it_pauses(job)
    for job in (stopped, other):
        go_on(job)
    stop_inside_an_iteration(daemon, stopped, daemon.budget - alone(FEWER_IMAGES).peak_bytes - 4 * MIB)
    daemon.ends_as_alone(other, FEWER_IMAGES)
    assert daemon.state_of(stopped) == "T"
    stopped.send_signal(signal.SIGCONT)
    daemon.ends_as_alone(stopped, IMAGES)
    daemon.check_memory()


def test_a_job_that_comes_to_need_twice_of_what_was_measured_ends_with_the_same_numbers_and_so_does_the_other(
    start: StartDaemon,
) -> None:
    daemon = start("neaptide", budget_for(GROWING, TEXT))
    jobs = {each: daemon.begin(each[0], each) for each in (GROWING, TEXT)}
    for arguments, process in jobs.items():
        daemon.ends_as_alone(process, arguments)
    daemon.check_memory()
    until(lambda: daemon.paths.events.read_bytes().count(b"job_ended") == 2, "the log to be written")
    assert replay(daemon.paths.events, daemon.paths.traces, find_policy("neaptide")) == []
    run = read_runs(daemon.paths.events)[-1]
    measured = {job.name: job.peak_bytes for job in run.header.jobs}
    grew = {entry.job: entry.peak_bytes for entry in run.entries if isinstance(entry, JobGrew)}
    assert GROWING[0] in grew  # and perhaps the other, if it was evicted for it
    assert 1.5 * measured[GROWING[0]] < grew[GROWING[0]] == daemon.job(GROWING[0]).needs_bytes
    ends = [entry for entry in run.entries if isinstance(entry, IterationEnded) and entry.job == GROWING[0]]
    sizes = [end.work or 0.0 for end in ends]
    assert min(sizes) == pytest.approx(1, abs=0.1)
    assert max(sizes) > 1.5


def test_a_job_that_is_killed_gives_all_back_and_the_other_ends_with_the_same_numbers(
    start: StartDaemon,
) -> None:
    daemon = start("neaptide", budget_for(IMAGES, TEXT))
    killed, other = daemon.begin("killed", IMAGES), daemon.begin("other", TEXT)
    until_step(killed, 10)
    kill(killed)
    until(lambda: daemon.has("killed", "failed"), "it to be noticed")
    daemon.ends_as_alone(other, TEXT)
    daemon.check_memory()


@pytest.mark.parametrize("policy", ["herald", "neaptide"])
def test_every_request_to_a_job_that_serves_is_answered_beside_a_training(policy: str, start: StartDaemon) -> None:
    daemon = start(policy, budget_for(SERVING, TEXT))
    serving, training = daemon.begin("serving", SERVING), daemon.begin("training", TEXT)
    daemon.ends_as_alone(serving, SERVING)
    daemon.ends_as_alone(training, TEXT)
    assert daemon.job("serving").kind is JobKind.INFERENCE
    daemon.check_memory()
