"""Files of jobs: how they are read, and how errors in them are shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from neaptide.cli.running.jobs_file import JobsFile, command_of, load_jobs, name_of, parse_jobs
from neaptide.core.units import GIB
from neaptide.devices import default_kind

MINIMAL = "[[job]]\ncommand = 'python train.py'\n"


def parse(text: str, folder: Path = Path()) -> JobsFile:
    return parse_jobs(text, folder / "jobs.toml")


def test_every_key_of_a_file_of_jobs_is_read(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    given = parse(
        """
        budget = "2GiB"
        policy = "mine.py"
        device = { sms = 1, wait = "100ms", cuda_as_soft = false }
        [[job]]
        name = "first"
        kind = "inference"
        command = ["python", "train.py", "--name", "two words"]
        env = { SEED = 3, VERBOSE = true }
        cwd = "inside"
        priority = 2
        slo = "50ms"
        slo_quantile = 0.95
        latency_critical = true
        iterations = 100
        """,
        tmp_path,
    )
    assert (given.name, given.budget_bytes) == ("jobs", 2 * GIB)
    assert given.policy == str(tmp_path / "mine.py")
    assert given.device == default_kind().settings_type(sms=1, wait="100ms", cuda_as_soft=False)
    (job,) = given.jobs
    assert (job.name, job.kind) == ("first", "inference")
    assert (job.priority, job.deadline_seconds, job.iterations) == (2, 0.05, 100)
    assert (job.deadline_quantile, job.latency_critical) == (0.95, True)
    assert job.command == (sys.executable, "train.py", "--name", "two words")
    assert job.environment == {"SEED": "3", "VERBOSE": "1"}
    assert job.directory == tmp_path / "inside"


def test_keys_that_are_not_given_are_left_to_the_daemon() -> None:
    given = parse(MINIMAL)
    assert (given.budget_bytes, given.policy) == (None, None)
    assert (given.jobs[0].name, given.jobs[0].iterations) == ("train", None)


def test_a_command_is_split_like_a_shell_does_and_python_means_the_one_that_runs_neaptide() -> None:
    assert command_of("python3 a.py --x 'b c'") == (sys.executable, "a.py", "--x", "b c")
    assert command_of("/opt/python a.py") == ("/opt/python", "a.py")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "-u", "dir/train.py", "--x"), "train"),
        (("python", "-m", "my.tool"), "my.tool"),
        (("./serve",), "serve"),
    ],
)
def test_a_job_without_a_name_is_called_as_its_script(command: tuple[str, ...], name: str) -> None:
    assert name_of(command) == name


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("budget = ", "jobs.toml: not TOML: Invalid value (at end of document)"),
        ("budget = '1GiB'", "jobs.toml: there is no job; write at least one [[job]] with a command"),
        (
            "budget = '1GiB'\n[job]\ncommand = 'a'",
            "jobs.toml, line 2: write [[job]], with two brackets, at the head of",
        ),
        (
            f"budget = 'much'\n{MINIMAL}",
            "jobs.toml, line 1: 'much' is not an amount of memory; write it like",
        ),
        (f"budget = 0\n{MINIMAL}", "jobs.toml, line 1: the budget must be positive"),
        (f"\nbugdet = 1\n{MINIMAL}", "jobs.toml, line 2: unknown key 'bugdet'; did you mean budget?"),
        ("[[job]]\nname = 'a'", "jobs.toml, line 1, job a: command is missing"),
        (f"{MINIMAL}prority = 1", "jobs.toml, line 3, job 1: unknown key 'prority'; did you mean priority?"),
        ("[[job]]\ncommand = ''", "jobs.toml, line 2, job 1: the command is empty; write it like python train.py"),
        ('[[job]]\ncommand = "a \'b"', 'jobs.toml, line 2, job 1: "a \'b" cannot be split into words: no closing'),
        ('[[job]]\ncommand = ["a", "b\\u0000c"]', "jobs.toml, line 2, job 1: a command cannot hold a zero byte"),
        (f'{MINIMAL}env = {{A = "\\u0000"}}', "jobs.toml, line 3, job 1: 'A' cannot be set: a variable has a name"),
        (
            f"{MINIMAL}env = {{'A=B' = 1}}",
            "jobs.toml, line 3, job 1: 'A=B' cannot be set: a variable has a name without",
        ),
        (f"{MINIMAL}env = {{'' = 1}}", "jobs.toml, line 3, job 1: '' cannot be set: a variable has a name without ="),
        (f"{MINIMAL}cwd = 'nowhere'", "jobs.toml, line 3, job 1: there is no directory nowhere"),
        (f"{MINIMAL}slo = 'soon'", "jobs.toml, line 3, job 1: 'soon' is not a duration"),
        (f"{MINIMAL}slo = 0", "jobs.toml, line 3, job 1: the SLO must be positive"),
        (f"{MINIMAL}slo = '1s'\nslo_quantile = 1", "jobs.toml, line 4, job 1: the share of deadlines to keep must be"),
        (f"{MINIMAL}slo_quantile = 0.9", "jobs.toml, line 3, job 1: a share of deadlines to keep needs a deadline"),
        (f"{MINIMAL}slo = '1s'", "jobs.toml, line 3, job 1: a training job has no requests, so it cannot have an slo"),
        (f"{MINIMAL}latency_critical = true", "jobs.toml, line 3, job 1: a training job cannot be latency-critical"),
        (f"{MINIMAL}iterations = 0", "jobs.toml, line 3, job 1: iterations must be between 1 and 4294967295, not 0"),
        (f"{MINIMAL}priority = 3000000000", "jobs.toml, line 3, job 1: the priority must be between -2147483648 and"),
        (f"{MINIMAL}slo = '2000000s'", "jobs.toml, line 3, job 1: the time for a batch must be positive and at most"),
        (f"{MINIMAL}iterations = 'x'", "jobs.toml, line 3, job 1: iterations: expected int, got str"),
        (f"{MINIMAL}name = '../x'", "jobs.toml, line 3, job ../x: '../x' is no name for a job"),
        (f"{MINIMAL}{MINIMAL}", "jobs.toml, line 3: 2 jobs are called 'train'; give each its own name"),
        (f"[device]\nsms = 0\n{MINIMAL}", "jobs.toml, line 2, device: sms must be between 1 and 1024, not 0"),
        (f"[device]\nsms = 1\nwait = 'soon'\n{MINIMAL}", "jobs.toml, line 3, device: wait: 'soon' is not a duration"),
        (f"[device]\nsms = 'one'\n{MINIMAL}", "jobs.toml, line 2, device: sms: expected int, got str"),
        (f"[device]\nwiat = 0\n{MINIMAL}", "jobs.toml, line 2, device: unknown key 'wiat'; did you mean wait?"),
    ],
)
def test_an_error_in_a_file_of_jobs_is_one_line_that_names_its_place(text: str, line: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        parse(text)
    assert str(raised.value).startswith(line)
    assert "\n" not in str(raised.value)


def test_a_directory_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a directory; name a TOML file"):
        load_jobs(tmp_path)
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not a text file; name a TOML file, or write -- before a command"):
        load_jobs(tmp_path / "x")
