"""`neaptide run`, `top`, `report` and `replay`: an error is one line, and leaves no file behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neaptide.cli import app as root
from neaptide.cli.target import end_options_at_program


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run"], "name a TOML file of jobs, or write a command: neaptide run -- python train.py"),
        (["run", "none.toml"], "none.toml: No such file or directory"),
        (["run", "train.py"], "train.py is a script; write the whole command: neaptide run -- python train.py"),
        (
            ["run", "./train.py", "--steps", "5"],
            "./train.py is a script; write the whole command: neaptide run -- python ./train.py --steps 5",
        ),
        (["run", "jobs.json"], "jobs.json is no program; name a TOML file of jobs, or write a command: neaptide run"),
        (
            ["run", "jobs.toml", "--priority", "2"],
            "--priority can only be given for a command; write it into jobs.toml",
        ),
        (["run", "--priority", "3000000000", "--", "true"], "the priority must be between -2147483648 and 2147483647"),
        (["run", "--iterations", "5000000000", "--", "true"], "iterations must be between 1 and 4294967295"),
        (["run", "--slo", "2000000s", "--", "true"], "the time for a batch must be positive and at most 1000000 s"),
        (
            ["run", "--slo", "1s", "--slo-quantile", "99", "--", "true"],
            "the share of deadlines to keep must be between 0.5 and 0.9999, not 99",
        ),
        (["run", "--slo-quantile", "0.9", "--", "true"], "a share of deadlines to keep needs a deadline: give an slo"),
        (["run", "--slo", "1s", "--", "true"], "a training job has no requests, so it cannot have an slo; its"),
        (["run", "--sms", "99999999999", "--", "true"], "sms must be between 1 and 1024, not 99999999999"),
        (["run", "--latency-critical", "--", "true"], "a training job cannot be latency-critical; its kind must be"),
        (["run", "jobs.toml", "--latency-critical"], "--latency-critical can only be given for a command; write it"),
        (["run", "--name=-o", "--", "true"], "'-o' is no name for a job"),
        (["run", "jobs.toml", "--policy", "zcio"], "no policy is called 'zcio'; did you mean zico?"),
        (["run", "jobs.toml", "--budget", "much"], "'much' is not an amount of memory; write it like 2GiB or 500MB"),
        (["run", "--name=-o", "--", "python", "a.py"], "'-o' is no name for a job"),
        (["run", "--name=-5MiB", "--", "python", "a.py"], "'-5MiB' is no name for a job"),
        (["run", "--name", "", "--", "python", "a.py"], "'' is no name for a job"),
        (["run", "--name", "a/b", "--", "python", "a.py"], "'a/b' is no name for a job"),
        (["run", "--name", "\x1b[2J", "--", "python", "a.py"], r"'\x1b[2J' is no name for a job"),
        (["run", "control.toml"], r"control.toml, line 1, job a b\x1b: unknown key 'c\nd'"),
        (["top"], "no daemon runs in"),
        (["report"], "name the folders of one or more runs; neaptide run prints the folder that it writes"),
        (["replay"], "name the folder of a run; neaptide run prints the folder that it writes"),
        (["report", "."], ". is not the folder of a run; neaptide run prints the folder that it writes"),
        (["report", "none"], "none is not the folder of a run; neaptide run prints the folder that it writes"),
    ],
)
def test_a_wrong_command_line_of_run_top_report_or_replay_is_one_line(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEAPTIDE_RUNTIME", str(tmp_path / "runtime"))
    Path("jobs.toml").write_text("[[job]]\nname = 'a'\ncommand = 'python a.py'\n")
    for name in ("train.py", "jobs.json"):
        Path(name).write_text("print(1)")
    Path("control.toml").write_text('[[job]]\nname = "a\\nb\\u001b"\n"c\\nd" = 1\n')
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"neaptide: {line}")
    assert outcome.err.count("\n") == 1
    assert not Path("neaptide-runs").exists()


@pytest.mark.parametrize(
    ("words", "understood"),
    [
        ("--name a python train.py --name b", "--name a -- python train.py --name b"),
        ("--name a -- python train.py", "--name a -- python train.py"),
        ("--private jobs.toml -o kept", "--private jobs.toml -o kept"),
        ("--private", "--private"),
    ],
)
def test_everything_after_a_program_is_passed_to_it(words: str, understood: str) -> None:
    known = root.app["run"].assemble_argument_collection()
    assert end_options_at_program(words.split(), known) == understood.split()


FLAGS = {
    "--budget 64MiB": ("budget", "64MiB"),
    "--policy=zico": ("policy", "zico"),
    "--private": ("private", True),
    "--name first": ("name", "first"),
    "--kind inference": ("kind", "inference"),
    "--priority -1": ("priority", -1),
    "--slo 50ms": ("slo", "50ms"),
    "--slo-quantile 0.9": ("slo_quantile", 0.9),
    "--latency-critical": ("latency_critical", True),
    "--iterations 7": ("iterations", 7),
    "--memory 3MiB": ("memory", "3MiB"),
    "--sms 1": ("sms", 1),
    "--wait 1s": ("wait", "1s"),
    "--link 4GB": ("link", "4GB"),
    "--no-cuda-as-soft": ("cuda_as_soft", False),
    "--cuda-as-soft": ("cuda_as_soft", True),
}

NEEDED = {
    "--slo 50ms": ("--kind inference",),
    "--slo-quantile 0.9": ("--slo 50ms", "--kind inference"),
    "--latency-critical": ("--kind inference",),
}  # one without the other: refused


def understood(words: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `run` is called with."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        "neaptide.cli.running.run_command.run_command",
        lambda job, device, wanted: given.update(job=job, device=device, wanted=wanted) or 0,
    )
    assert root.main(["run", *words]) == 0
    job, device, wanted = given["job"], given["device"], given["wanted"]
    return {
        "command": job.command[1:],
        "budget": wanted.budget_bytes and f"{wanted.budget_bytes >> 20}MiB",
        "policy": wanted.policy,
        "private": wanted.private,
        "name": job.name,
        "kind": job.kind,
        "priority": job.priority,
        "slo": job.deadline_seconds and f"{job.deadline_seconds * 1000:.0f}ms",
        "slo_quantile": job.deadline_quantile,
        "latency_critical": job.latency_critical,
        "iterations": job.iterations,
        "memory": job.memory_bytes and f"{job.memory_bytes >> 20}MiB",
        "sms": device.sms,
        "wait": device.wait,
        "link": device.link,
        "cuda_as_soft": device.cuda_as_soft,
    }


def test_every_flag_of_a_command_is_tried() -> None:
    names = [argument.names[0] for argument in root.app["run"].assemble_argument_collection()]
    flags = {name for name in names if name.startswith("--")}
    tried = {flag.split()[0].partition("=")[0] for flag in FLAGS}
    assert flags - tried == {"--output", "--without-neaptide"}  # they are for a file of jobs


@pytest.mark.parametrize("dashes", [["--"], []], ids=["with --", "without --"])
@pytest.mark.parametrize("first", FLAGS)
def test_flags_before_a_program_may_stand_in_any_order(
    first: str, dashes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ["python", "x.py", "--budget", "1", "--private"]
    for second in FLAGS:
        if FLAGS[first][0] == FLAGS[second][0]:
            continue
        flags = dict.fromkeys([first, second, *NEEDED.get(first, ()), *NEEDED.get(second, ())])
        seen = understood([*" ".join(flags).split(), *dashes, *program], monkeypatch)
        assert seen["command"] == tuple(program[1:])
        assert {key: seen[key] for key, _ in (FLAGS[first], FLAGS[second])} == dict([FLAGS[first], FLAGS[second]])


@pytest.mark.parametrize("order", [1, -1])
def test_all_flags_at_once_are_understood_from_either_end(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = [flag for flag in FLAGS if flag != "--cuda-as-soft"][::order]
    seen = understood([word for flag in flags for word in flag.split()] + ["--", "python", "x.py"], monkeypatch)
    assert seen == {"command": ("x.py",), **dict(FLAGS[flag] for flag in flags)}
