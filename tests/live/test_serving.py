"""Servers of the usual kinds beside a training: every answer is right, and the training ends as alone."""

from __future__ import annotations

import pytest

from daemons import until
from neaptide.core.control.events import Event, RequestAnswered, RequestArrived
from neaptide.reporting.logs.log_file import read_runs
from real_jobs import RealDaemon, StartDaemon, alone
from serving import MEASURED, ServerJob, ask_until_it_ends
from serving_program import STYLES

TEXT = ("gpt2", "8", "16")
LEAST = 36
SERVER_BYTES = 64 << 20


@pytest.mark.parametrize("policy", ["herald", "neaptide"])
@pytest.mark.parametrize("style", STYLES)
def test_every_request_is_answered_right_and_the_training_ends_as_alone(
    style: str, policy: str, start: StartDaemon
) -> None:
    daemon = start(policy, alone(TEXT).peak_bytes + SERVER_BYTES)
    server = ServerJob(daemon, style)
    training = daemon.begin("training", TEXT)
    asked = ask_until_it_ends([server], training, LEAST)
    daemon.ends_as_alone(training, TEXT)
    until(lambda: daemon.job("server").iterations_done > 0, "its iterations to be counted")
    # A client may have its answer a moment before the server's framework has ended the request.
    until(lambda: len(_of(daemon, RequestArrived)) == len(_of(daemon, RequestAnswered)), "every request to be answered")
    assert asked <= len(_of(daemon, RequestArrived)) <= asked + MEASURED  # those before it was measured are not known


def _of(daemon: RealDaemon, kind: type[Event]) -> list[Event]:
    daemon.status()  # the log has everything until then
    events = read_runs(daemon.paths.events)[-1].entries
    return [each for each in events if isinstance(each, kind) and each.job == "server"]
