"""`neaptide report` of several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from neaptide.core.control.log_format import Header, Joined, encode_line
from neaptide.core.units import GIB
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.logs.run_folder import EVENTS, REPORT, RUN, RunFile
from outcomes import ENTRIES, job


def write_run(folder: Path, policy: str, names: str = "ab", budget_bytes: int = 5 * GIB) -> None:
    folder.mkdir()
    header = Header(scenario="live", policy=policy, seed=0, device="soft", budget_bytes=budget_bytes, end_ns=0, jobs=())
    lines = [header, *(Joined(at_ns=0, facts=job(name), pid=1) for name in "ab"), *ENTRIES]
    (folder / EVENTS).write_bytes(b"".join(encode_line(line) + b"\n" for line in lines))
    results = tuple(JobResult(name, 0, 3.0, f"{name}.log") for name in names)
    file = RunFile(name=folder.name, began_ns=0, high_water_bytes=GIB, interrupted=False, results=results)
    (folder / RUN).write_bytes(msgspec.json.encode(file))
    (folder / REPORT).write_text("the page of this run")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_comparison_is_a_page_of_its_own(run: Any) -> None:
    write_run(Path("first"), "zico")
    write_run(Path("second"), "neaptide")
    for name in ("comparison-1.html", "comparison-2.html"):
        outcome = run("report", "first", "second")
        assert outcome.code == 0
        assert outcome.out.endswith(f"report written to {name}\n")
        assert Path(name).is_file()
    assert Path("first", REPORT).read_text() == "the page of this run"


def test_a_comparison_says_against_what(run: Any) -> None:
    for name in ("zico", "neaptide", "temporal"):
        write_run(Path(name), name)
    assert "Throughput is against zico, the first run." in run("report", "zico", "neaptide").out
    assert "Throughput is against temporal." in run("report", "zico", "temporal").out
    assert "Throughput is against one job alone." in run("report", "zico").out


def test_runs_of_different_jobs_are_refused(run: Any) -> None:
    write_run(Path("first"), "zico")
    write_run(Path("second"), "neaptide", names="ac")
    outcome = run("report", "first", "second")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("neaptide: first and second are runs of different jobs (b, c in one alone)")
    assert not list(Path().glob("*.html"))


def test_different_budgets_are_mentioned(run: Any) -> None:
    write_run(Path("first"), "zico")
    write_run(Path("second"), "neaptide", budget_bytes=6 * GIB)
    assert "The runs had different budgets: 5.00 GiB and 6.00 GiB." in run("report", "first", "second").out


def test_a_comparison_prints_no_code_of_a_policy(run: Any) -> None:
    write_run(Path("first"), "zico")
    write_run(Path("second"), "mine\x1b[2J")
    said = run("report", "first", "second").out
    assert r"mine\x1b[2J" in said
    assert "\x1b" not in said
