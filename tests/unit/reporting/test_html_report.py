"""A live run that is saved, read back and shown as an HTML page."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.controller import Decided
from neaptide.core.control.log_format import Header, HeldMemory, Joined, encode_line
from neaptide.core.units import GIB
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.run_jobs import RunRecord
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.logs.live_run import LiveRun, compared, live_run
from neaptide.reporting.logs.log_file import read_runs
from neaptide.reporting.logs.run_folder import (
    EVENTS,
    RUN,
    TRACES,
    check_output_folder,
    folder_for_run,
    read_run,
    save_run,
)
from neaptide.reporting.pages.html_report import _close_up, _overviews, report
from neaptide.reporting.pages.plots import Tick
from neaptide.reporting.terminal.run_summary import run_remarks, summary_line
from neaptide.simulation.outcome import MemorySeries
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
    with folder_for_run(tmp_path / "run", "two") as folder:
        save_run(folder, "two", RECORD, daemon(tmp_path))
    return live_run(read_run(folder))


def test_a_saved_run_has_only_the_jobs_of_the_run(run: LiveRun) -> None:
    assert run.entries == ENTRIES  # with times from the run's own start
    assert [record.job.name for record in run.row.metrics.jobs] == ["a", "b"]
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
    assert run_remarks(empty) == [
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
        if tag not in ("meta", "line"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "line":
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
    assert "at most 5.00 GiB of 5.00 GiB held" in text
    assert "a well 1 100 100 100%" in text  # iterations, alone, here, share
    assert "neaptide: b failed after 2.0 s, exit code 1: OutOfMemoryError: <b> & more" in text
    assert "0.006 a waits for memory inside an iteration" in text
    assert "The whole log, 10 entries, is events.jsonl" in text


def test_jobs_are_stacked_and_the_budget_is_a_line(run: LiveRun) -> None:
    page = report([run], "two")
    assert "<title>a, up to 3.00 GiB</title>" in page
    assert "<title>b, up to 2.00 GiB</title>" in page
    paths = re.findall(r'<path (?:class="budget" )?d="([^"]+)"', page)[-3:]
    first, second, budget = (min(float(y) for y in re.findall(r"[,V]([\d.]+)", path)) for path in paths)
    assert first > second == budget  # downwards; 5 GiB are held of a budget that was 5 GiB


def test_an_error_is_shown_once_and_without_folders_of_the_machine(tmp_path: Path) -> None:
    lines = ('  File "/home/me/secret/train.py", line 3', "RuntimeError: cannot read /home/me/secret/data.bin")
    results = (RECORD.results[0], replace(RECORD.results[1], last_lines=lines))
    with folder_for_run(tmp_path / "run", "two") as folder:
        saved = save_run(folder, "two", replace(RECORD, results=results), daemon(tmp_path))
    page = report([live_run(saved)], "two")
    assert page.count("RuntimeError: cannot read data.bin") == 1
    assert page.count("out of memory") == 0  # the daemon's words for the same end
    assert "/home" not in page


def test_runs_are_compared_against_temporal_with_equal_work_per_iteration(tmp_path: Path, run: LiveRun) -> None:
    mine = read_run(tmp_path / "run")
    slower = tuple(msgspec.structs.replace(each, solo_ns=2 * each.solo_ns) for each in mine.logged.header.jobs)
    header = msgspec.structs.replace(mine.logged.header, policy="temporal", jobs=slower)  # measured beside other work
    temporal = msgspec.structs.replace(mine, logged=replace(mine.logged, header=header))
    runs = compared([mine, temporal])
    assert [(each.row.policy, each.row.speedup) for each in runs] == [("neaptide", 1.0), ("temporal", 1.0)]
    page = _Page(report(runs, "two"))
    assert "Throughput is against temporal." in page.text
    assert "neaptide: b failed after 2.0 s" in page.text
    assert summary_line(run) == "neaptide: 0.50 times the work of one job alone; at most 5.00 GiB of 5.00 GiB held"


def test_a_folder_with_other_files_is_refused_and_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not empty and has no earlier run; name another folder"):
        check_output_folder(tmp_path)
    with pytest.raises(ValueError, match="is a file; name a folder for the run"):
        check_output_folder(tmp_path / "thesis.txt")
    with pytest.raises(ValueError, match="is not the folder of a run"):
        read_run(tmp_path)


def test_a_run_replaces_an_earlier_run_in_the_same_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with folder_for_run(folder, "two"):
        save_run(folder, "two", RECORD, daemon(tmp_path))
        (folder / "a.log").write_text("old")
    with folder_for_run(folder, "two"):
        assert [path.name for path in folder.iterdir()] == [RUN]
    with pytest.raises(ValueError, match="the run was not saved completely: it was cut off, or is not over yet"):
        read_run(folder)
    assert not (folder / EVENTS).exists()


def test_a_run_without_its_log_says_what_is_missing(tmp_path: Path, run: LiveRun) -> None:
    folder = tmp_path / "run"
    (folder / EVENTS).write_bytes(b"")
    with pytest.raises(ValueError, match=r"was not saved completely: events\.jsonl has no whole line"):
        read_run(folder)
    (folder / EVENTS).unlink()
    with pytest.raises(ValueError, match=r"was not saved completely: events\.jsonl is missing"):
        read_run(folder)
    assert run.entries


def test_a_run_without_a_name_gets_the_first_free_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with folder_for_run(None, "jobs") as first, folder_for_run(None, "jobs") as second:
        assert (first, second) == (Path("neaptide-runs/jobs-1"), Path("neaptide-runs/jobs-2"))


def test_the_folder_of_a_refused_run_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def refuse() -> None:
        with folder_for_run(None, "jobs") as folder:
            (folder / "a.log").write_text("it was started before b was refused")
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        refuse()
    with pytest.raises(KeyboardInterrupt), folder_for_run(Path("named"), "jobs"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_saved_is_complained_about_and_still_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = daemon(tmp_path)
    with folder_for_run(tmp_path / "run", "two") as folder:
        (folder / EVENTS).symlink_to("/dev/full")
        saved = save_run(folder, "two", RECORD, paths)
    assert live_run(saved).entries == ENTRIES
    said = f"neaptide: the run could not be saved completely in {folder}: No space left on device\n"
    assert capsys.readouterr().err == said


def test_a_log_with_gaps_is_mentioned(run: LiveRun) -> None:
    said = "3 lines of the log could not be written, so these figures leave something out"
    assert run_remarks(replace(run, lost_lines=3)) == [said]


def test_the_memory_chart_begins_with_the_run(run: LiveRun) -> None:
    half_ns = run.end_ns // 2
    late = MemorySeries(np.array([0, half_ns]), np.array([0, GIB]))  # nothing is held in the first half
    (drawing,) = _overviews([replace(run, memory={"a": late}, total=late)], ["a"])
    assert drawing.plot.budget.startswith("M0.0,")
    assert drawing.plot.time_ticks[0] == Tick(0.0, "0")
    (area,) = drawing.plot.areas
    first_rise = re.match(r"M0\.0,[\d.]+H([\d.]+)V", area.path)
    assert first_rise is not None
    assert float(first_rise[1]) == pytest.approx(500, abs=2)  # of 1000


def test_the_close_up_is_of_iterations_and_not_of_waiting(run: LiveRun) -> None:
    ends_ns = [300 * MS, 500 * MS, 700 * MS]  # each iteration takes 100 ms, after 100 ms of waiting
    steps = [(Decided(end - 100 * MS, act.Start("a")), ev.IterationEnded(end, "a", 100 * MS)) for end in ends_ns]
    entries = (ev.JobArrived(0, "a"), Decided(100 * MS, act.Admit("a")), *(each for step in steps for each in step))
    drawing = _close_up(replace(run, entries=entries, end_ns=900 * MS), ["a"])
    assert drawing is not None
    assert drawing.note == "under neaptide, from 0.2 s on"
    assert [round(piece.width) for piece in drawing.lanes[0].pieces if piece.look == "iteration"] == [200, 200, 200]
    assert _close_up(replace(run, entries=entries[:2], end_ns=900 * MS), ["a"]) is None


def test_the_page_names_device_date_version_policy_and_budget(tmp_path: Path) -> None:
    record = replace(RECORD, began_at="2026-03-01 12:00 UTC", hardware="software GPU on a <processor>", seconds=3.5)
    with folder_for_run(tmp_path / "run", "two") as folder:
        saved = save_run(folder, "two", record, daemon(tmp_path))
    text = " ".join(_Page(report([live_run(saved)], "two")).text.split())
    top = (
        "device software GPU on a <processor> date 2026-03-01 12:00 UTC neaptide 0.1.0 policy neaptide budget 5.00 GiB"
    )
    assert top in text


def test_runs_of_different_jobs_are_not_compared(tmp_path: Path, run: LiveRun) -> None:
    mine = read_run(tmp_path / "run")
    file = msgspec.structs.replace(mine.file, results=(replace(RECORD.results[0], name="c"), RECORD.results[1]))
    with pytest.raises(ValueError, match=r"are runs of different jobs \(a, c in one alone\)"):
        compared([mine, msgspec.structs.replace(mine, file=file)])
    assert run.name == "two"


def test_runs_without_temporal_are_compared_with_the_first(tmp_path: Path, run: LiveRun) -> None:
    mine = read_run(tmp_path / "run")
    runs = compared([mine, mine])
    assert runs[0].row.against_what == "neaptide, the first run"
    assert "against temporal" not in report(runs, "two")
    assert run.row.against_what == compared([mine])[0].row.against_what == "one job alone"


def test_a_job_that_the_user_interrupted_has_not_failed(tmp_path: Path, run: LiveRun) -> None:
    mine = read_run(tmp_path / "run")
    results = tuple(replace(result, asked_to_end=True) for result in RECORD.results)
    folder = tmp_path / "again"
    with folder_for_run(folder, "two"):
        save_run(folder, "two", replace(RECORD, results=results), daemon(tmp_path))
    page = report([live_run(read_run(folder))], "two")
    assert "b was interrupted" in page
    assert "failed" not in page
    assert mine.file.results == run.results


def test_a_job_that_ended_well_without_a_word_has_not_failed(tmp_path: Path) -> None:
    results = (RECORD.results[0], JobResult("b", 0, 2.0, "b.log"))
    with folder_for_run(tmp_path / "run", "two") as folder:
        saved = save_run(folder, "two", replace(RECORD, results=results), daemon(tmp_path))
    assert "failed" not in report([live_run(saved)], "two")


def test_nothing_that_a_job_says_reaches_a_terminal_or_a_browser_raw(tmp_path: Path) -> None:
    evil = "\x1b[2J<script>alert(1)</script>\x9b\u202e"
    results = (RECORD.results[0], JobResult("b", 1, 2.0, "b.log", (evil,)))
    paths = daemon(tmp_path)
    log = paths.events.read_text().replace("out of memory", msgspec.json.encode(evil).decode()[1:-1])
    paths.events.write_text(log)
    with folder_for_run(tmp_path / "run", evil.replace("/", "")) as folder:
        saved = save_run(folder, "two", replace(RECORD, results=results), paths)
    page = report([live_run(saved)], evil)
    assert not {"\x1b", "\x9b", "\u202e"} & set(page)
    assert "<script" not in page
    assert page.count("\\x1b[2J&lt;script&gt;") >= 3  # the title twice, and the error
