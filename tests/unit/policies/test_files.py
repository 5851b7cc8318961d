import re
import subprocess
import sys
from pathlib import Path

import pytest

import neaptide
from neaptide.core.control.actions import Admit, Start
from neaptide.core.control.events import JobEnded
from neaptide.core.control.job import Job, JobKind, JobState
from neaptide.core.control.policy import Policy
from neaptide.policies import POLICIES
from neaptide.policies.files import find_policy
from neaptide.policies.zico import Zico
from tides import MIB
from tides import tide as tide_trace
from views import job, tide, view

GUIDE = Path(__file__).parents[3] / "docs" / "writing-a-policy.md"
HEAD = "from neaptide.policy import Policy\n"


def example(number: int = 0) -> str:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[number]


def written(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_every_registered_policy_bears_the_name_that_makes_it() -> None:
    for name in POLICIES:
        assert POLICIES.make(name).name == name


def test_a_policy_is_found_by_name() -> None:
    assert find_policy("zico") == Zico()
    with pytest.raises(ValueError, match="no policy is called 'zicco'; did you mean zico"):
        find_policy("zicco")


def test_the_guides_example_has_at_most_40_lines_and_runs_by_path(tmp_path: Path) -> None:
    assert len(example().splitlines()) <= 40
    policy = find_policy(written(tmp_path, example(), "shortest.py"))
    assert policy.name == "shortest"
    long = job("long", tide(40), state=JobState.QUEUED, iterations_left=9)
    short = job("short", tide(40), iterations_left=2)
    assert policy.decide(view(long, short)) == [Start("short"), Admit("long"), Start("long")]
    assert policy.decide(view(long, short, budget=79)) == [Start("short"), Admit("long")]


def test_the_guides_example_starts_a_ready_job_behind_jobs_that_cannot_start(tmp_path: Path) -> None:
    policy = find_policy(written(tmp_path, example(), "shortest.py"))
    ready = job("ready", tide(40, persistent=30), iterations_left=9)
    too_large = job("too large beside it", tide(40, persistent=40), state=JobState.QUEUED, iterations_left=2)
    away = job("in host memory", tide(80), state=JobState.SUSPENDED, iterations_left=1)
    idle = job("without requests", kind=JobKind.INFERENCE)
    assert policy.decide(view(ready, too_large, away, idle, budget=109)) == [Start("ready")]
    assert policy.decide(view(ready, too_large, budget=110))[0] == Admit("too large beside it")


def test_the_guides_example_shares_a_simulated_device(tmp_path: Path) -> None:
    path = written(tmp_path, example(), "shortest.py")
    jobs = [Job(name=name, trace=tide_trace(fill=0.4), iterations=count) for name, count in (("a", 9), ("b", 3))]
    shared = neaptide.simulate(jobs, 2200 * MIB, policy=path)
    by_turns = neaptide.simulate(jobs, 2200 * MIB, policy="temporal")
    assert [entry.job for entry in shared.entries if isinstance(entry, JobEnded)] == ["b", "a"]
    assert shared.end_ns < 0.9 * by_turns.end_ns
    assert shared.over_budget_bytes == 0


def test_the_guides_simulation_runs_outside_the_package(tmp_path: Path) -> None:
    written(tmp_path, example(), "shortest.py")
    neaptide.save_trace(tide_trace(), tmp_path / "resnet50.trace")
    program = written(tmp_path, example(1), "compare.py")
    ended = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=True)
    seconds, peak_bytes = map(float, ended.stdout.split())
    assert seconds > 0
    assert 0 < peak_bytes <= 12 * 1024 * MIB


def test_a_frozen_policy_from_a_file_is_a_policy_like_any_other(tmp_path: Path) -> None:
    path = written(tmp_path, example())
    assert isinstance(find_policy(path), Policy)
    assert find_policy(path) is not find_policy(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1", "exactly one subclass of Policy, this one none"),
        (HEAD, "exactly one subclass of Policy, this one none"),
        (
            HEAD + "class A(Policy):\n def decide(self, view): return []\nclass B(A): pass\n",
            "exactly one subclass of Policy, this one A, B",
        ),
        (HEAD + "class A(Policy):\n def decide(self, view): return []\n", "A has no name; give it one: name = 'mine'"),
        (
            HEAD + "class A(Policy):\n name = 'a'\n def __init__(self, x): ...\n def decide(self, view): return []\n",
            "A cannot be made without arguments",
        ),
        ("def (", r"SyntaxError: .* \(line 1\)"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_file_that_holds_no_policy_gets_one_clear_line(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=problem) as failure:
        find_policy(path)
    assert str(failure.value).startswith(path)
    assert "\n" not in str(failure.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no policy file"):
        find_policy(str(tmp_path / "none.py"))
