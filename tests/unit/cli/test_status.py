"""`neaptide status` of a daemon's answer."""

from __future__ import annotations

from typing import Any

import pytest

from statuses import job_status, status


def test_status_prints_no_code_of_a_job_or_of_a_problem(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said = status(
        job_status("a\x1b[2J", "failed", reason="no \x1b]0;room\x07"),
        job_status("b\x9b", "not shared", reason="\u202e"),
        problem="the disk\x1b[2J is full",
    )
    monkeypatch.setattr("neaptide.live.protocol.asking.ask", lambda *_: said)
    outcome = run("status")
    assert outcome.code == 0
    assert outcome.out.splitlines()[1:] == [
        r"problem: the disk\x1b[2J is full",
        r"a\x1b[2J: failed, 10/40 iterations, 2.00/s, holds 512 MiB, needs 600 MiB "
        r"(model 100 MiB, framework 0 B, ephemeral 500 MiB): no \x1b]0;room\x07",
        r"b\x9b (process 1): not shared: \u202e",
    ]
