"""A live run that is saved, read back and shown as an HTML page."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from neaptide.core.control.log_format import Header, HeldMemory, Joined, encode_line
from neaptide.core.units import GIB
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.run_jobs import RunRecord
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.logs.live_run import LiveRun, compared, live_run
from neaptide.reporting.logs.log_file import read_runs
from neaptide.reporting.logs.run_folder import EVENTS, RUN, TRACES, next_folder, prepare_folder, read_run, save_run
from neaptide.reporting.pages.html_report import report
from neaptide.reporting.terminal.run_summary import remarks, summary_line
from outcomes import ENTRIES, MS, job

BEGAN_NS = 1_000 * MS
RECORD = RunRecord(
    policy="neaptide",
    device="soft",
    budget_bytes=5 * GIB,
    began_ns=BEGAN_NS,
    results=(
        JobResult("a", 0, 3.0, "a.log"),
        JobResult("b", 1, 2.0, "b.log", ("Traceback", "OutOfMemoryError: <b> & more")),
    ),
    high_water_bytes=5 * GIB,
    interrupted=False,
)
MEMORY = (
    HeldMemory(5, {"before": GIB}),
    HeldMemory(BEGAN_NS - 1, {"before": 0}),
    HeldMemory(BEGAN_NS + 2 * MS, {"a": 3 * GIB}),
    HeldMemory(BEGAN_NS + 8 * MS, {"a": 3 * GIB, "b": 2 * GIB}),
    HeldMemory(BEGAN_NS + 20 * MS, {}),
)


def daemon(folder: Path, policy: str = "neaptide") -> RuntimePaths:
    """The files of a daemon that has had another job since before the run."""
    header = Header(scenario="live", policy=policy, seed=0, device="soft", budget_bytes=5 * GIB, end_ns=0, jobs=())
    joined = [
        Joined(at_ns=0, facts=job(name, iterations=None), pid=1, trace=f"{name}.trace") for name in ("before", "a", "b")
    ]
    moved = [msgspec.structs.replace(entry, at_ns=entry.at_ns + BEGAN_NS) for entry in ENTRIES]
    before = [msgspec.structs.replace(ENTRIES[0], at_ns=at_ns, job="before") for at_ns in (5, BEGAN_NS + 5)]
    paths = RuntimePaths(folder)
    lines = [header, before[0], header, *joined, *before, *moved, *MEMORY]  # two runs of daemons; the second is meant
    paths.events.write_bytes(b"".join(encode_line(line) + b"\n" for line in lines))
    paths.traces.mkdir(exist_ok=True)
    (paths.traces / "a.trace").write_bytes(b"a trace")
    return paths


@pytest.fixture
def run(tmp_path: Path) -> LiveRun:
    folder = tmp_path / "run"
    prepare_folder(folder)
    save_run(folder, "two", RECORD, daemon(tmp_path))
    return live_run(read_run(folder))


def test_a_saved_run_has_only_the_jobs_of_the_run(run: LiveRun) -> None:
    assert run.entries == ENTRIES  # with times from the run's own start
    assert [record.job.name for record in run.row.metrics.jobs] == ["a", "b"]
    assert run.first_ns == 2 * MS
    assert run.memory["b"].peak_bytes == 2 * GIB
    assert run.total.at_ns.tolist() == [0, 2 * MS, 8 * MS, 20 * MS]
    assert run.total.held_bytes.tolist() == [0, 3 * GIB, 5 * GIB, 0]


def test_a_job_that_ended_without_announcing_its_iterations_has_a_completion_time(run: LiveRun) -> None:
    record = run.row.metrics.jobs[0]
    assert (record.job.iterations, record.completion_ns) == (1, 10 * MS)


def test_a_saved_run_reads_back_the_same(tmp_path: Path, run: LiveRun) -> None:
    assert live_run(read_run(tmp_path / "run")).entries == run.entries
    assert run.results == RECORD.results


def test_the_log_and_the_traces_are_saved_unchanged_for_a_replay(tmp_path: Path, run: LiveRun) -> None:
    folder = tmp_path / "run"
    assert run.name == "two"
    assert (tmp_path / "events.jsonl").read_bytes().endswith((folder / EVENTS).read_bytes())
    assert [each.facts.name for each in read_runs(folder / EVENTS)[0].joined] == ["before", "a", "b"]
    assert [path.name for path in (folder / TRACES).iterdir()] == ["a.trace"]


def test_the_run_of_a_daemon_without_a_log_is_empty(tmp_path: Path) -> None:
    empty = live_run(save_run(tmp_path, "two", RECORD, RuntimePaths(tmp_path / "none")))
    assert (empty.entries, empty.row.policy, empty.budget_bytes) == ((), "neaptide", 5 * GIB)
    assert remarks(empty) == [
        "a did no iteration under the policy: it ended before it was measured, or never used the device; see a.log"
    ]
    assert "<h1>" in report([empty], "empty")


class _Page(HTMLParser):
    """Collects the links that a browser would fetch, the open tags, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in ("meta", "line", "rect", "path", "i"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "rect", "path", "i"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


def test_the_page_is_well_formed_and_links_to_nothing(run: LiveRun) -> None:
    page = _Page(report([run], "two <jobs>"))
    assert (page.fetched, page.open) == ([], [])
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert "two <jobs>" in page.text


def test_the_page_shows_throughput_waiting_failures_and_events(run: LiveRun) -> None:
    text = " ".join(_Page(report([run], "two")).text.split())
    assert "5.00 GiB of 5.00 GiB most memory held" in text
    assert "a 1 100 100 100% well" in text  # iterations, alone, here, share
    assert "b ended with exit code 1 Traceback OutOfMemoryError: <b> & more" in text
    assert "0.006 a waits for memory inside an iteration" in text
    assert "The whole log, 10 entries, is events.jsonl" in text


def test_jobs_are_stacked_and_the_budget_is_a_line(run: LiveRun) -> None:
    page = report([run], "two")
    assert "<title>a, up to 3.00 GiB</title>" in page
    assert "<title>b, up to 2.00 GiB</title>" in page
    assert "<title>b has been measured and arrives</title>" in page
    paths = re.findall(r'<path d="([^"]+)"', page)
    first, second, budget = (min(float(y) for y in re.findall(r"[,V]([\d.]+)", path)) for path in paths)
    assert first > second == budget  # downwards; 5 GiB are held of a budget that was 5 GiB


def test_runs_are_compared_against_temporal_with_equal_work_per_iteration(tmp_path: Path, run: LiveRun) -> None:
    mine = read_run(tmp_path / "run")
    slower = tuple(msgspec.structs.replace(each, solo_ns=2 * each.solo_ns) for each in mine.logged.header.jobs)
    header = msgspec.structs.replace(mine.logged.header, policy="temporal", jobs=slower)  # measured beside other work
    temporal = msgspec.structs.replace(mine, logged=replace(mine.logged, header=header))
    runs = compared([mine, temporal])
    assert [(each.row.policy, each.row.speedup) for each in runs] == [("neaptide", 1.0), ("temporal", 1.0)]
    page = _Page(report(runs, "two"))
    assert "Policies compared" in page.text
    assert "neaptide: job b failed: out of memory" in page.text
    assert summary_line(run) == "neaptide: 0.50 times the work of one job alone; at most 5.00 GiB of 5.00 GiB held"


def test_a_folder_with_other_files_is_refused_and_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not empty and has no earlier run; name another folder"):
        prepare_folder(tmp_path)
    with pytest.raises(ValueError, match="is a file; name a folder for the run"):
        prepare_folder(tmp_path / "thesis.txt")
    with pytest.raises(ValueError, match="is not the folder of a run"):
        read_run(tmp_path)


def test_a_run_replaces_an_earlier_run_in_the_same_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    prepare_folder(folder)
    save_run(folder, "two", RECORD, daemon(tmp_path))
    (folder / "a.log").write_text("old")
    prepare_folder(folder)
    assert [path.name for path in folder.iterdir()] == [RUN]
    with pytest.raises(ValueError, match="the run was not saved completely"):
        read_run(folder)
    assert not (folder / EVENTS).exists()


def test_the_next_folder_has_the_first_free_number(tmp_path: Path) -> None:
    (tmp_path / "jobs-1").mkdir()
    assert next_folder(tmp_path, "jobs") == tmp_path / "jobs-2"
