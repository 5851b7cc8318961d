"""`neaptide simulate`: policies side by side, the files it writes, and errors in scenarios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from neaptide.capture.files import save_trace
from neaptide.reporting.logs.log_file import read_runs
from neaptide.reporting.logs.metrics import metrics_of
from neaptide.scenarios import traces as scenario_traces
from tides import MIB, tide

TWO = """
budget = "1500MiB"
policies = ["zico", "mine.py"]

[[job]]
name = "a"
trace = "a.trace"
iterations = 4

[[job]]
name = "b"
trace = "b.trace"
iterations = 3
arrives = "50ms"
"""
SERVING = """
until = "2s"
[[job]]
name = "answers"
trace = "served.trace"
slo = "500ms"
requests = { rate = 20, duration = "1s" }

[[job]]
name = "trains"
trace = "a.trace"
"""
MINE = """
from neaptide.core.control.actions import Admit, Start
from neaptide.core.control.policy import Policy

class Mine(Policy):
    name = "mine"

    def decide(self, view):
        return [*(Admit(job.name) for job in view.queued), *(Start(job.name) for job in view.startable)]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with traces, a policy and scenarios, and an empty cache."""
    save_trace(tide("a", ephemeral=900 * MIB, fill=0.4), tmp_path / "a.trace")
    save_trace(tide("b", ephemeral=700 * MIB, fill=0.4), tmp_path / "b.trace")
    save_trace(
        tide("served", ops=20, seconds=0.01, ephemeral=50 * MIB, batch=4, inference=True), tmp_path / "served.trace"
    )
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "two.toml").write_text(TWO)
    (tmp_path / "serving.toml").write_text(SERVING)
    monkeypatch.setattr("neaptide.scenarios.trace_cache.cache_folder", lambda: tmp_path / "cache")
    return tmp_path


def report_of(outcome: Any) -> dict[str, Any]:
    assert outcome.code == 0, outcome.err
    said: dict[str, Any] = json.loads(outcome.out.splitlines()[-1])
    return said


def test_policies_are_compared_and_temporal_sharing_comes_first(run: Any, here: Path) -> None:
    outcome = run("simulate", here / "two.toml")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == "two.toml: V100-16GB, budget 1.46 GiB (9%), seed 0"
    rows = [line.split() for line in lines if line.startswith(("temporal ", "zico ", "mine "))]
    assert [row[0] for row in rows] == ["temporal", "zico", "mine"]
    assert rows[0][1] == "1.00x"


def test_the_last_line_of_json_has_the_numbers(run: Any, here: Path) -> None:
    report = report_of(run("simulate", here / "two.toml", "--json"))
    temporal, zico, _ = report["policies"]
    assert (report["scenario"], report["budget_bytes"], report["seed"]) == ("two.toml", 1500 * MIB, 0)
    assert temporal["throughput"] == 1.0
    assert zico["throughput"] > 1.05
    assert zico["over_budget_bytes"] == 0
    assert [(job["name"], job["done"], job["iterations"]) for job in zico["jobs"]] == [("a", True, 4), ("b", True, 3)]


def test_named_policies_replace_those_of_the_scenario(run: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here.parent)
    mine = Path(here.name) / "mine.py"
    report = report_of(run("simulate", here / "two.toml", "--policy", "fifo", "--policy", mine, "--json"))
    assert [row["policy"] for row in report["policies"]] == ["temporal", "fifo", "mine"]


def test_every_metric_can_be_computed_from_the_log(run: Any, here: Path) -> None:
    outcome = run("simulate", here / "serving.toml", "--events", here / "log.jsonl", "--json")
    runs = read_runs(here / "log.jsonl")
    for logged, said in zip(runs, report_of(outcome)["policies"], strict=True):
        metrics = metrics_of(logged.entries, logged.header.jobs, logged.header.end_ns)
        assert logged.header.policy == said["policy"]
        assert metrics.throughput == said["normalised_progress"]
        assert metrics.attainment == said["attainment"]
        assert metrics.latency_p99_ns == said["latency_p99_ns"]


def test_the_same_seed_gives_the_same_log_byte_for_byte(run: Any, here: Path) -> None:
    logs = []
    for seed in (1, 1, 2):
        (here / "serving.toml").write_text(f"seed = {seed}\n{SERVING}")
        assert run("simulate", here / "serving.toml", "--events", here / "log.jsonl").code == 0
        logs.append((here / "log.jsonl").read_bytes())
    assert logs[0] == logs[1] != logs[2]
    assert logs[0].startswith(b'{"log":"run","format":2,"version":')


def test_the_figure_the_log_and_the_perfetto_trace_are_written(run: Any, here: Path) -> None:
    figure, events, perfetto = (here / name for name in ("f.svg", "e.jsonl", "p.json"))
    out = run("simulate", here / "two.toml", "--figure", figure, "--events", events, "--perfetto", perfetto).out
    assert f"figure written to {figure}\nevent log written to {events}\ntrace written to {perfetto}; " in out
    assert figure.read_text().startswith("<?xml")
    assert len(read_runs(events)) == 3
    names = {event["args"]["name"] for event in json.loads(perfetto.read_text())["traceEvents"] if event["ph"] == "M"
             and event["name"] == "process_name"}  # fmt: skip
    assert names == {"temporal", "zico", "mine"}


def test_a_budget_may_change_during_the_run(run: Any, here: Path) -> None:
    path = here / "two.toml"
    path.write_text(TWO + '[[budget_change]]\nat = "200ms"\nbudget = "1200MiB"\n')
    run("simulate", path, "--events", here / "log.jsonl")
    assert '{"event":"budget_changed","at_ns":200000000,"budget_bytes":1258291200,' in (here / "log.jsonl").read_text()


def test_a_scenario_bounds_how_far_jobs_launch_ahead(run: Any, here: Path) -> None:
    (here / "two.toml").write_text("in_flight = 4\n" + TWO)
    run("simulate", here / "two.toml", "--events", here / "log.jsonl")
    assert '"action":{"action":"cap_in_flight","job":"a","kernels":4}' in (here / "log.jsonl").read_text()


def test_a_model_is_estimated_once_and_cached(run: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    estimated = []

    def run_model(name: str, options: Any, *_: object) -> Any:
        estimated.append((name, options.batch))
        return tide(name)

    monkeypatch.setattr(scenario_traces, "run_model", run_model)
    path = here / "models.toml"
    path.write_text(
        '[[job]]\nmodel = "alexnet"\nbatch = 8\ncount = 2\niterations = 1\n'
        '[[job]]\nname = "again"\nmodel = "alexnet"\nbatch = 8\niterations = 1\n'
        '[[job]]\nname = "other"\nmodel = "alexnet"\nbatch = 9\niterations = 1\n'
    )
    assert run("simulate", path, "--policy", "temporal").code == 0
    assert estimated == [("alexnet", 8), ("alexnet", 9)]
    assert run("simulate", path, "--policy", "temporal").code == 0
    assert len(estimated) == 2
    for kept in (here / "cache" / "traces").iterdir():
        kept.write_bytes(b"damaged")
    assert run("simulate", path, "--policy", "temporal").code == 0
    assert len(estimated) == 4


def test_a_note_names_a_trace_of_another_device(run: Any, here: Path) -> None:
    path = here / "two.toml"
    path.write_text('device = "P100"\n' + TWO)
    assert "a.trace is a trace of V100-16GB: its times are not those of P100-16GB." in run("simulate", path).out


def test_jobs_that_do_not_end_are_named(run: Any, here: Path) -> None:
    (here / "two.toml").write_text('until = "150ms"\n' + TWO)
    out = run("simulate", here / "two.toml", "--policy", "temporal").out
    assert "temporal: 0 of 2 jobs ended; these did not: a, b" in out


def test_an_error_in_a_users_policy_shows_the_policys_traceback(run: Any, here: Path) -> None:
    broken = here / "broken.py"
    broken.write_text(MINE.replace("return", "view.jobz\n        return"))
    outcome = run("simulate", here / "two.toml", "--policy", broken)
    assert outcome.code == 2
    assert outcome.err.startswith(f'Traceback (most recent call last):\n  File "{broken}", line 9, in decide\n')
    assert outcome.err.endswith("\nneaptide: policy mine failed with AttributeError\n")
    assert "controller.py" not in outcome.err


JOB = '[[job]]\nname = "a"\ntrace = "a.trace"\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("seed = 1\nbudget = \n", "x.toml: not TOML: Invalid value (at line 2, column 10)"),
        ("", "x.toml: there is no job; write at least one [[job]]"),
        (f"polices = []\n{JOB}", "x.toml, line 1: unknown key 'polices'; did you mean policies?"),
        (f"seed = 'x'\n{JOB}", "x.toml, line 1: seed: expected int, got str"),
        (f"\nseed = -1\n{JOB}", "x.toml, line 2: seed must not be negative, not -1"),
        (f"in_flight = 0\n{JOB}", "x.toml, line 1: in_flight must be at least 1, not 0"),
        (f"device = 'V1000'\n{JOB}", "x.toml, line 1: no device is called 'V1000'; did you mean V100-16GB"),
        (f"device = 'no.toml'\n{JOB}", "no.toml: No such file or directory"),
        (f"policies = ['zicco']\n{JOB}iterations = 1", "line 1: no policy is called 'zicco'; did you mean zico?"),
        (f"policies = ['gone.py']\n{JOB}iterations = 1", "there is no policy file"),
        (f"budget = '64MB'\n{JOB}iterations = 1", "x.toml, line 2, job a: it needs 0.977 GiB alone, 939 MiB more than "
         "the budget of 61.0 MiB; raise the budget or lower the batch"),
        (f"budget = '64GB'\n{JOB}", "x.toml, line 1: the budget of 59.6 GiB is 43.6 GiB more than V100-16GB has"),
        (f"{JOB}itertions = 3", "x.toml, line 4, job a: unknown key 'itertions'; did you mean iterations?"),
        (f"{JOB}iterations = 0", "x.toml, line 4, job a: iterations must be at least 1, not 0"),
        (f"{JOB}iterations = 'many'", "x.toml, line 4, job a: iterations: expected int, got str"),
        (f"{JOB}iterations = 1\nduration = '1s'", "line 5, job a: give iterations or a duration, not both"),
        (f"{JOB}model = 'vae'", "job a: give either a model or a trace"),
        ("[[job]]\niterations = 1", "x.toml, line 1, job 1: give either a model or a trace"),
        (f"{JOB}batch = 2", "x.toml, line 4, job a: batch and scale apply to a model, not to a trace"),
        ("[[job]]\nmodel = 'resnet5O'", "line 2, job resnet5O: no model is called 'resnet5O'; did you mean resnet50"),
        ("[[job]]\nmodel = 'vae'\nbatch = 0", "x.toml, line 3, job vae: batch must be at least 1, not 0"),
        ("[[job]]\ntrace = 'gone.trace'", "gone.trace: No such file or directory"),
        ("[[job]]\ntrace = 'mine.py'", "x.toml, line 2, job 1: "),
        (f"{JOB}plans = ['gone.trace']", "x.toml, line 4, job a: "),
        (f"{JOB}kind = 'inference'", "job a: an inference job needs requests"),
        (f"{JOB}slo = '1s'", "x.toml, line 4, job a: a training job has neither requests nor an slo"),
        (f"{JOB}requests = {{ rate = 1 }}", "x.toml, line 4, job a: requests need a count or a duration"),
        (f"{JOB}requests = {{ rate = 0, count = 1 }}", "line 4, job a: the rate of requests must be positive, not 0"),
        (f"{JOB}requests = {{ rate = 1, cont = 1 }}", "line 4, job a: unknown key 'cont'; did you mean count?"),
        (f"{JOB}requests = {{ count = 1 }}", "job a: rate is missing"),
        (f"{JOB}requests = {{ rate = 1, count = 1 }}\niterations = 2", "an inference job ends when its requests"),
        (f"{JOB}arrives = 'soon'", "x.toml, line 4, job a: 'soon' is not a duration; write it like 50ms or 1.5s"),
        (f"{JOB}count = 0", "x.toml, line 4, job a: count must be at least 1, not 0"),
        (JOB, "x.toml: no job ever ends; give one its iterations, or write until = '60s' at the top"),
        (f"{JOB}iterations = 1\n{JOB}", "x.toml: 2 jobs are called 'a'; give each its own name"),
        (f"{JOB}iterations = 1\n[[budget_change]]\nat = '1s'\nbudget = 3.0", "line 7, budget_change 1: budget 3.0 is"),
        (f"{JOB}iterations = 1\n[[budget_change]]\nat = '1s'", "x.toml, line 5, budget_change 1: budget is missing"),
        (f"arrivals = 'gone.csv'\n{JOB}iterations = 1", "gone.csv: No such file or directory"),
    ],
)  # fmt: skip
def test_an_error_in_a_scenario_is_one_line(run: Any, here: Path, text: str, line: str) -> None:
    (here / "x.toml").write_text(text)
    outcome = run("simulate", here / "x.toml")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("neaptide: ")
    assert outcome.err.count("\n") == 1
    assert line in outcome.err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("", "name a scenario"),
        ("gone.toml", "gone.toml: No such file or directory"),
        (".", ". is a directory; name a TOML file"),
        ("binary.toml", "binary.toml is not a text file; name one that you can read in an editor"),
        ("two.toml --figure f.gif", "must end with .png, .svg or .pdf"),
        ("two.toml --events no/e.jsonl", "cannot write no/e.jsonl: there is no directory no"),
        ("two.toml --perfetto .", ". is a directory; name a file"),
        ("two.toml --policy zicco", "no policy is called 'zicco'; did you mean zico?"),
        ("two.toml --policy other/mine.py", "there is no policy file"),
        ("two.toml --policy again.py", "two different policies are called 'temporal'; give yours another name"),
    ],
)
def test_a_wrong_option_of_simulate_is_one_line(
    run: Any, here: Path, monkeypatch: pytest.MonkeyPatch, words: str, part: str
) -> None:
    monkeypatch.chdir(here)
    Path("again.py").write_text(MINE.replace('"mine"', '"temporal"'))
    Path("binary.toml").write_bytes(b"\xff\xfe")
    outcome = run("simulate", *words.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert part in outcome.err
