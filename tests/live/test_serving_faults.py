"""Servers beside a training when much happens at once, or somebody dies or stands still: nobody else is harmed."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from itertools import count
from urllib.error import URLError

import pytest

from daemons import kill, until
from real_jobs import StartDaemon, alone, go_on, until_it_pauses, until_step
from serving import CLIENTS, ServerJob, ask_until_it_ends

TEXT = ("gpt2", "8", "16")
SERVER_BYTES = 64 << 20
BURST = 60  # requests at once

goals = pytest.mark.parametrize("critical", [False, True], ids=["slo", "latency-critical"])


@goals
def test_all_requests_of_a_burst_are_answered_and_the_training_ends_as_alone(
    critical: bool, start: StartDaemon
) -> None:
    daemon = start("neaptide", alone(TEXT).peak_bytes + SERVER_BYTES)
    server = ServerJob(daemon, "fastapi-def", latency_critical=critical)
    training = daemon.begin("training", TEXT, pauses=True)
    until_it_pauses(training)
    go_on(training)
    assert server.ask_all(range(BURST), clients=BURST) == BURST
    daemon.ends_as_alone(training, TEXT)
    assert server.ask_all(range(CLIENTS)) == CLIENTS


def ask_while_it_answers(server: ServerJob) -> int:
    """One client that asks until nobody answers any more; how many of its requests were answered."""
    for number in count():
        try:
            server.ask(number)
        except (URLError, HTTPException, OSError):
            return number
    raise AssertionError


@goals
def test_a_server_that_is_killed_while_it_serves_holds_up_no_training(critical: bool, start: StartDaemon) -> None:
    daemon = start("neaptide", alone(TEXT).peak_bytes + SERVER_BYTES)
    server = ServerJob(daemon, "fastapi-def", latency_critical=critical)
    training = daemon.begin("training", TEXT, pauses=True)
    until_it_pauses(training)
    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(ask_while_it_answers, server) for _ in range(CLIENTS)]
        go_on(training)
        before = daemon.job("server").iterations_done
        answered = before + CLIENTS  # so many iterations later one client at least has asked again
        until(lambda: daemon.job("server").iterations_done > answered, "it to serve beside the training")
        kill(server.process)
        assert sum(each.result() for each in clients) > 0
    daemon.ends_as_alone(training, TEXT)
    daemon.check_memory()


@goals
def test_a_training_that_is_killed_costs_no_request(critical: bool, start: StartDaemon) -> None:
    daemon = start("neaptide", alone(TEXT).peak_bytes + SERVER_BYTES)
    server = ServerJob(daemon, "fastapi-async", latency_critical=critical)
    training = daemon.begin("training", TEXT, pauses=True)
    until_it_pauses(training)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.ask_all, range(10 * CLIENTS))
        go_on(training)
        until_step(training, 12)
        kill(training)
        assert asked.result() == 10 * CLIENTS
    until(lambda: not daemon.has("training", "running"), "the daemon to see its end")
    assert server.ask_all(range(CLIENTS)) == CLIENTS
    kill(server.process)
    daemon.check_memory()


@goals
def test_a_training_ends_beside_a_stopped_server_which_then_answers_everything(
    critical: bool, start: StartDaemon
) -> None:
    daemon = start("neaptide", alone(TEXT).peak_bytes + SERVER_BYTES)
    server = ServerJob(daemon, "flask", latency_critical=critical)
    training = daemon.begin("training", TEXT, pauses=True)
    until_it_pauses(training)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.ask_all, range(20 * CLIENTS))
        before = daemon.job("server").iterations_done
        until(lambda: daemon.job("server").iterations_done > before, "it to serve")
        server.process.send_signal(signal.SIGSTOP)
        go_on(training)
        daemon.ends_as_alone(training, TEXT)
        assert daemon.state_of(server.process) == "T"
        server.process.send_signal(signal.SIGCONT)
        assert asked.result() == 20 * CLIENTS


def test_servers_of_several_kinds_with_goals_of_their_own_answer_everything_beside_a_training(
    start: StartDaemon,
) -> None:
    daemon = start("neaptide", alone(TEXT).peak_bytes + 4 * SERVER_BYTES)
    servers = [
        ServerJob(daemon, "fastapi-def", name="pool", deadline_seconds=0.2),
        ServerJob(daemon, "fastapi-async", name="loop", latency_critical=True),
        ServerJob(daemon, "batches", name="batches", deadline_seconds=0.5),
        ServerJob(daemon, "grpc", name="grpc", deadline_seconds=0.3),
    ]
    training = daemon.begin("training", TEXT)
    ask_until_it_ends(servers, training, 0)
    daemon.ends_as_alone(training, TEXT)
