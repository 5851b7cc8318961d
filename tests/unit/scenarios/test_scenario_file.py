"""From a scenario's text to the jobs that run."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import Op, make_trace, training_trace
from neaptide.capture.files import save_trace
from neaptide.core.control.job import JobKind
from neaptide.core.device import find_device
from neaptide.core.units import GIB
from neaptide.policies.files import find_policy
from neaptide.scenarios.scenario_file import budget_of, load_scenario, ns_of, parse_scenario
from neaptide.scenarios.submissions import submissions_of
from neaptide.scenarios.trace_cache import TraceCache, TraceKey
from neaptide.scenarios.traces import Traces
from neaptide.simulation import Submission

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "scenarios").glob("*.toml"))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    save_trace(training_trace(), tmp_path / "a.trace")
    return tmp_path


def jobs_of(text: str, here: Path) -> list[Submission]:
    scenario = parse_scenario(text, here / "x.toml")
    return submissions_of(scenario, Traces(scenario))


def arrivals(submissions: list[Submission]) -> list[tuple[str, int]]:
    return [(each.job.name, each.arrives_ns) for each in submissions]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_scenario_can_be_read(path: Path) -> None:
    scenario = load_scenario(path)
    assert [find_policy(name).name for name in scenario.policies] == list(scenario.policies)
    assert scenario.jobs


def test_there_are_examples() -> None:
    assert {"two-trainings", "training-and-inference", "queue"} <= {path.stem for path in EXAMPLES}


def test_a_job_is_named_after_its_trace_unless_it_has_a_name(here: Path) -> None:
    text = '[[job]]\ntrace = "a.trace"\niterations = 3\n[[job]]\nname = "b"\ntrace = "a.trace"\narrives = "2s"\n'
    first, second = jobs_of(text, here)
    assert (first.job.name, first.job.iterations, first.arrives_ns) == ("a", 3, 0)
    assert (second.job.name, second.job.iterations, second.arrives_ns) == ("b", None, 2_000_000_000)
    assert second.job.trace is first.job.trace  # read once


def test_memory_of_the_framework_is_part_of_what_a_job_keeps(here: Path) -> None:
    (job,) = jobs_of('[[job]]\ntrace = "a.trace"\nframework = "1 KiB"\niterations = 1\n', here)
    plain = training_trace()
    job.job.trace.check()
    assert (job.job.trace.framework_bytes, plain.framework_bytes) == (1024, 0)
    assert job.job.trace.persistent_bytes == plain.persistent_bytes + 1024
    assert job.job.trace.ephemeral_bytes == plain.ephemeral_bytes
    with pytest.raises(ValueError, match=r"x\.toml, line 3"):
        jobs_of('[[job]]\ntrace = "a.trace"\nframework = "much"\n', here)


def test_a_duration_is_the_number_of_iterations_that_fit_alone(here: Path) -> None:
    (job,) = jobs_of('[[job]]\ntrace = "a.trace"\nduration = "1s"\n', here)  # an iteration takes 8.01 ms
    assert job.job.iterations == 125
    (job,) = jobs_of('[[job]]\ntrace = "a.trace"\nduration = "1us"\n', here)
    assert job.job.iterations == 1


def test_copies_arrive_one_after_the_other(here: Path) -> None:
    text = '[[job]]\ntrace = "a.trace"\niterations = 1\ncount = 3\narrives = "1s"\nevery = "500ms"\n'
    assert arrivals(jobs_of(text, here)) == [("a-1", 10**9), ("a-2", 1_500_000_000), ("a-3", 2 * 10**9)]


def test_poisson_copies_depend_on_the_seed_alone(here: Path) -> None:
    text = '[[job]]\ntrace = "a.trace"\niterations = 1\ncount = 400\nevery = "500ms"\narrivals = "poisson"\n'
    times = [arrivals(jobs_of(f"seed = {seed}\n{text}", here)) for seed in (1, 1, 2)]
    assert times[0] == times[1] != times[2]
    assert 0.4 < times[0][-1][1] / 1e9 / 399 < 0.6


def test_requests_arrive_at_their_rate_after_the_job(here: Path) -> None:
    text = '[[job]]\ntrace = "a.trace"\narrives = "1s"\nslo = "1.6s"\nrequests = {{ rate = 10, {} }}\n'
    (job,) = jobs_of(text.format('count = 3, arrivals = "fixed"'), here)
    assert (job.job.kind, job.job.deadline_seconds) == (JobKind.INFERENCE, 1.6)
    assert job.requests_ns == (1_100_000_000, 1_200_000_000, 1_300_000_000)
    (job,) = jobs_of(text.format('duration = "100s"'), here)
    assert 800 < len(job.requests_ns) < 1200
    assert 10**9 < job.requests_ns[0] < job.requests_ns[-1] < 101 * 10**9
    (job,) = jobs_of('until = "11s"\n' + text.format('arrivals = "fixed"'), here)
    assert (len(job.requests_ns), job.requests_ns[-1]) == (99, 10_900_000_000)


def test_a_csv_file_lists_jobs_and_their_arrivals(here: Path) -> None:
    (here / "jobs.csv").write_text("model,batch,arrives_seconds,solo_seconds\nvae,64,1.5,2\nvae,64,0,1\nvae,128,2,3\n")
    text = 'arrivals = "jobs.csv"\n[[job]]\ntrace = "a.trace"\niterations = 9\n'
    tables = [spec.given for spec in parse_scenario(text, here / "x.toml").jobs]
    assert [(each.title, each.model, each.batch, each.arrives, each.duration) for each in tables[:3]] == [
        ("vae-64-1", "vae", 64, 0.0, 1.0),
        ("vae-64-2", "vae", 64, 1.5, 2.0),
        ("vae-128-1", "vae", 128, 2.0, 3.0),
    ]
    assert tables[3].title == "a"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("when,what\n", "x.toml, line 1: jobs.csv, line 1: the columns must be model, batch, "),
        ("model,batch,arrives_seconds,solo_seconds\nvae,0,0,1\n", "x.toml, line 1: jobs.csv, line 2: batch must be"),
        ("model,batch,arrives_seconds,solo_seconds\nvea,1,0,1\n", "jobs.csv, job vea-1-1: no model is called 'vea'"),
    ],
)
def test_the_error_names_a_wrong_csv_file(here: Path, content: str, part: str) -> None:
    (here / "jobs.csv").write_text(content)
    with pytest.raises(ValueError, match=r"jobs\.csv") as error:
        jobs_of('arrivals = "jobs.csv"\n', here)
    assert part in str(error.value)


def test_a_job_may_have_alternative_plans(here: Path) -> None:
    save_trace(training_trace(asynchronous=False), here / "b.trace")
    (job,) = jobs_of('[[job]]\ntrace = "a.trace"\nplans = ["b.trace"]\niterations = 1\n', here)
    assert [trace.asynchronous for trace in job.job.alternatives] == [False]


def test_a_device_may_be_a_table_or_a_file(here: Path) -> None:
    job = '[[job]]\ntrace = "a.trace"\niterations = 1\n'
    (here / "mine.toml").write_text('name = "mine"\nlike = "V100"\nmemory = "2GiB"\n')
    by_file = parse_scenario(f'device = "mine.toml"\n{job}', here / "x.toml")
    by_table = parse_scenario(f'{job}[device]\nname = "mine"\nlike = "V100"\nmemory = "2GiB"\n', here / "x.toml")
    assert by_file.device == by_table.device
    assert by_file.budget_bytes == 2 * GIB  # the default budget is all memory


def test_a_budget_is_an_amount_or_a_share() -> None:
    device = find_device("V100")
    assert budget_of("11GB", device) == 11 * 10**9
    assert budget_of(0.5, device) == budget_of("50%", device) == 8 * GIB


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("17GiB", "the budget of 17.0 GiB is 1.00 GiB more than V100-16GB has (16.0 GiB)"),
        (1.5, "budget 1.5 is not a share of the device's memory"),
        ("0%", "budget 0% is not a share"),
        ("many%", "not a share"),
        ("nan%", "not a share"),
        ("much", "'much' is not an amount of memory"),
        ("0B", "must be positive"),
    ],
)
def test_an_impossible_budget_is_refused(given: str | float, part: str) -> None:
    with pytest.raises(ValueError, match=r"budget|memory") as error:
        budget_of(given, find_device("V100"))
    assert part in str(error.value)


def test_a_job_may_wait_for_a_larger_budget(here: Path) -> None:
    text = 'budget = "200B"\n[[job]]\ntrace = "a.trace"\niterations = 1\n'  # the job needs 257
    with pytest.raises(ValueError, match="57 B more than the budget of 200 B"):
        jobs_of(text, here)
    assert jobs_of(f'{text}[[budget_change]]\nat = "1s"\nbudget = "257B"\n', here)


def test_a_job_is_accepted_if_one_of_its_plans_fits(here: Path) -> None:
    save_trace(make_trace([Op()]), here / "less.trace")
    text = 'budget = "200B"\n[[job]]\ntrace = "a.trace"\nplans = ["less.trace"]\niterations = 1\n'
    assert jobs_of(text, here)


def test_the_cache_keeps_a_trace_per_device_and_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neaptide.scenarios.trace_cache.cache_folder", lambda: tmp_path)
    wanted = TraceKey("vae", None, "paper", False)
    TraceCache(find_device("V100")).put(wanted, training_trace())
    assert TraceCache(find_device("V100")).get(wanted) is not None
    assert TraceCache(find_device("P100")).get(wanted) is None
    for other in (
        TraceKey("vae", 1, "paper", False),
        TraceKey("vae", None, "tiny", False),
        TraceKey("vae", None, "paper", True),
    ):
        assert TraceCache(find_device("V100")).get(other) is None


@pytest.mark.parametrize("given", [-1, float("nan"), float("inf"), "-1s", "1 parsec"])
def test_a_wrong_time_is_refused(given: str | float) -> None:
    with pytest.raises(ValueError, match=r"write it like 50ms or 1\.5s"):
        ns_of(given)
