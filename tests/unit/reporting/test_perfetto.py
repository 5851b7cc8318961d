"""Runs as a trace that ui.perfetto.dev opens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from neaptide.core.control.events import IterationEnded, JobArrived
from neaptide.core.control.job import JobKind
from neaptide.core.units import GIB
from neaptide.reporting.pages.perfetto import write_perfetto
from outcomes import JOBS, MS, job, outcome


@pytest.fixture
def events(tmp_path: Path) -> list[dict[str, Any]]:
    write_perfetto(tmp_path / "p.json", [(outcome("temporal"), JOBS), (outcome("zico"), JOBS)])
    read: list[dict[str, Any]] = json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    return read


def test_each_policy_is_a_process_and_each_job_a_track(events: list[dict[str, Any]]) -> None:
    named = {
        (e["pid"], e.get("tid"), e["args"]["name"]) for e in events if e["name"] in ("process_name", "thread_name")
    }
    assert named == {(1, None, "temporal"), (1, 1, "a"), (1, 2, "b"), (2, None, "zico"), (2, 1, "a"), (2, 2, "b")}


def test_an_iteration_lasts_from_its_start_to_its_end(events: list[dict[str, Any]]) -> None:
    (iteration,) = (e for e in events if e["ph"] == "X" and e["pid"] == 1)
    assert (iteration["tid"], iteration["ts"], iteration["dur"]) == (1, 0.0, 10_000.0)  # microseconds


def test_counters_show_the_bytes_held(events: list[dict[str, Any]]) -> None:
    held = [(e["ts"], e["args"]["bytes"]) for e in events if e["name"] == "held by a" and e["pid"] == 1]
    assert held == [(0.0, 3 * GIB), (10_000.0, 0)]
    budget = [(e["ts"], e["args"]["bytes"]) for e in events if e["name"] == "budget" and e["pid"] == 1]
    assert sorted(budget) == [(0.0, 5 * GIB), (8_000.0, 4 * GIB)]


def test_stalls_refusals_and_failures_are_marked(events: list[dict[str, Any]]) -> None:
    marks = {(e["tid"], e["name"]) for e in events if e["ph"] == "i"}
    assert marks >= {
        (1, "admitted to lane 2"),
        (1, "waits for memory"),
        (2, "refused start: it is not ready"),
        (2, "failed: out of memory"),
    }


def test_an_iteration_shows_the_requests_it_served(tmp_path: Path) -> None:
    entries = (JobArrived(0, "s"), IterationEnded(30 * MS, "s", 10 * MS, (10 * MS, 20 * MS)))
    run = outcome("herald", entries)
    write_perfetto(tmp_path / "p.json", [(run, [job("s", JobKind.INFERENCE, None), *JOBS])])
    read = json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    (iteration,) = (e for e in read if e["ph"] == "X")
    assert iteration["args"] == {"requests": 2, "longest_ms": 20.0, "late": 1}
