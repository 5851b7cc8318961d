"""Processes of a job that neaptide cannot prepare are found from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from neaptide.live.protocol.job_settings import BOOTSTRAP
from neaptide.live.runs.unseen import Unseen

SOCKET = Path("/run/daemon.sock")
OURS = {"NEAPTIDE_SOCKET": str(SOCKET), "NEAPTIDE_JOB": "job", "PYTHONPATH": f"{BOOTSTRAP}:/mine"}
TORCH = "7f00-7f01 r-xp /site/torch/lib/libtorch_cpu.so\n"


def process(folder: Path, pid: int, words: str, variables: dict[str, str], maps: str = TORCH) -> None:
    place = folder / str(pid)
    place.mkdir(exist_ok=True)
    (place / "cmdline").write_text("\0".join(words.split()) + "\0")
    (place / "environ").write_text("\0".join("=".join(pair) for pair in variables.items()))
    (place / "maps").write_text(maps)


@pytest.mark.parametrize(
    ("words", "python_path", "reason"),
    [
        ("python train.py -I", OURS["PYTHONPATH"], ""),
        ("python -m train -S", OURS["PYTHONPATH"], ""),
        ("python -u -X dev train.py", OURS["PYTHONPATH"], ""),
        ("python -WError::ImportWarning train.py", OURS["PYTHONPATH"], ""),
        ("python -cINSIDE=1", OURS["PYTHONPATH"], ""),
        ("python -W ignore -I train.py", OURS["PYTHONPATH"], "Python was started with -I"),
        ("python -Xdev -uWignore -S train.py", OURS["PYTHONPATH"], "Python was started with -S"),
        ("python -c pass", "/mine", "PYTHONPATH was replaced"),
        ("python train.py", "", "PYTHONPATH was replaced"),
        ("python -I train.py", OURS["PYTHONPATH"], "Python was started with -I"),
        ("python -uE train.py", OURS["PYTHONPATH"], "Python was started with -E"),
    ],
)
def test_a_process_whose_python_skipped_the_bootstrap_is_found_once(
    words: str, python_path: str, reason: str, tmp_path: Path
) -> None:
    process(tmp_path, 5, words, {**OURS, "PYTHONPATH": python_path})
    unseen = Unseen(SOCKET, ["job"], tmp_path)
    found = list(unseen.look())
    assert [(pid, job) for pid, job, _ in found] == ([(5, "job")] if reason else [])
    assert all(why.startswith(reason) for _, _, why in found)
    assert list(unseen.look()) == []


def test_a_process_counts_from_when_it_has_loaded_torch(tmp_path: Path) -> None:
    replaced = {**OURS, "PYTHONPATH": "/mine"}
    process(tmp_path, 5, "python train.py", replaced, maps="")
    process(tmp_path, 6, "python train.py", {**replaced, "NEAPTIDE_JOB": "other"})
    unseen = Unseen(SOCKET, ["job"], tmp_path)
    assert list(unseen.look()) == []
    process(tmp_path, 5, "python train.py", replaced)
    assert [pid for pid, _, _ in unseen.look()] == [5]
