"""Processes of a job that neaptide cannot prepare are found from outside."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from neaptide.live.protocol.job_settings import BOOTSTRAP
from neaptide.live.runs.unseen import Unseen

SOCKET = Path("/run/daemon.sock")
OURS = {"NEAPTIDE_SOCKET": str(SOCKET), "NEAPTIDE_JOB": "job", "PYTHONPATH": f"{BOOTSTRAP}:/mine"}
TORCH = "7f00-7f01 r-xp /site/torch/lib/libtorch_cpu.so\n"
READ = f"7f02-7f03 r--s {BOOTSTRAP}/sitecustomize.py\n"  # the bootstrap maps itself


def process(folder: Path, pid: int, words: str, variables: dict[str, str], maps: str = TORCH) -> None:
    place = folder / str(pid)
    place.mkdir(exist_ok=True)
    (place / "cmdline").write_text("\0".join(words.split()) + "\0")
    (place / "environ").write_text("\0".join("=".join(pair) for pair in variables.items()))
    (place / "maps").write_text(maps)


@pytest.mark.parametrize(
    ("words", "python_path", "reason"),
    [
        ("python -W ignore -I train.py", OURS["PYTHONPATH"], "Python was started with -I"),
        ("python -Xdev -uWignore -S train.py", OURS["PYTHONPATH"], "Python was started with -S"),
        ("python -I train.py", OURS["PYTHONPATH"], "Python was started with -I"),
        ("python -uE train.py", OURS["PYTHONPATH"], "Python was started with -E"),
        ("python -c pass", "/mine", "PYTHONPATH was replaced"),
        ("python train.py", "", "PYTHONPATH was replaced"),
        ("python train.py", f"/mine:{BOOTSTRAP}", "its Python does not read PYTHONPATH"),
        ("python train.py -I", OURS["PYTHONPATH"], "its Python does not read PYTHONPATH"),
        ("python -m train -S", OURS["PYTHONPATH"], "its Python does not read PYTHONPATH"),
        ("python -u -X dev train.py", OURS["PYTHONPATH"], "its Python does not read PYTHONPATH"),
        ("python -WError::ImportWarning train.py", OURS["PYTHONPATH"], "its Python does not read PYTHONPATH"),
        ("python -cINSIDE=1", OURS["PYTHONPATH"], "its Python does not read PYTHONPATH"),
    ],
)
def test_a_process_whose_python_skipped_the_bootstrap_is_found_once(
    words: str, python_path: str, reason: str, tmp_path: Path
) -> None:
    process(tmp_path, 5, words, {**OURS, "PYTHONPATH": python_path})
    unseen = Unseen(SOCKET, ["job"], tmp_path)
    found = [*unseen.look(), *unseen.look()]
    assert [(pid, job) for pid, job, _ in found] == [(5, "job")]
    assert all(why.startswith(reason) for _, _, why in found)
    assert list(unseen.look()) == []


def test_a_process_that_has_read_the_bootstrap_is_none_of_them(tmp_path: Path) -> None:
    process(tmp_path, 5, "python train.py", OURS, maps=TORCH + READ)
    process(tmp_path, 6, "python train.py", {**OURS, "PYTHONPATH": "/by/its/own/script"}, maps=READ + TORCH)
    unseen = Unseen(SOCKET, ["job"], tmp_path)
    assert list(unseen.look()) == []
    process(tmp_path, 5, "python train.py", OURS)  # both end: what Python has mapped goes first
    process(tmp_path, 6, "python train.py", {**OURS, "PYTHONPATH": "/by/its/own/script"})
    assert list(unseen.look()) == []
    assert list(unseen.look()) == []


def test_a_process_that_ends_between_two_looks_is_none_of_them(tmp_path: Path) -> None:
    unseen = Unseen(SOCKET, ["job"], tmp_path)
    process(tmp_path, 5, "python train.py", OURS)
    assert list(unseen.look()) == []
    shutil.rmtree(tmp_path / "5")
    process(tmp_path, 6, "python train.py", OURS)
    assert list(unseen.look()) == []


def test_a_process_that_becomes_one_that_reads_nothing_is_found(tmp_path: Path) -> None:
    unseen = Unseen(SOCKET, ["job"], tmp_path)
    process(tmp_path, 5, "python train.py", OURS, maps=TORCH + READ)
    assert list(unseen.look()) == []
    process(tmp_path, 5, "python -I train.py", OURS)
    assert [pid for pid, _, _ in unseen.look()] == [5]


def test_a_launcher_with_a_sitecustomize_of_its_own_is_named(tmp_path: Path) -> None:
    (tmp_path / "launcher").mkdir()
    own = tmp_path / "launcher" / "sitecustomize.py"
    own.touch()
    process(tmp_path, 5, "python train.py", {**OURS, "PYTHONPATH": f"{own.parent}:{OURS['PYTHONPATH']}"})
    unseen = Unseen(SOCKET, ["job"], tmp_path)
    ((_, _, reason),) = (*unseen.look(), *unseen.look())
    assert reason.startswith(f"Python reads {own} in place of neaptide's part")


def test_a_process_counts_from_when_it_has_loaded_torch(tmp_path: Path) -> None:
    replaced = {**OURS, "PYTHONPATH": "/mine"}
    process(tmp_path, 5, "python train.py", replaced, maps="")
    process(tmp_path, 6, "python train.py", {**replaced, "NEAPTIDE_JOB": "other"})
    unseen = Unseen(SOCKET, ["job"], tmp_path)
    assert list(unseen.look()) == []
    process(tmp_path, 5, "python train.py", replaced)
    assert [pid for pid, _, _ in unseen.look()] == [5]
