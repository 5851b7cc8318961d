"""A job under its keeper: it ends as it likes, and with the process that started it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

from hangs import HANGS_SECONDS
from neaptide.live.runs.keeping import _KEEPER, KeptProcess


def wait_until(there: Callable[[], object]) -> None:
    until = monotonic() + HANGS_SECONDS
    while not there():
        assert monotonic() < until
        sleep(0.01)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def numbers(path: Path, count: int) -> list[int]:
    """The numbers that processes wrote to the file, when there are so many."""
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= count)
    return [int(line) for line in path.read_text().split()]


def kept(command: list[str], output: Path) -> KeptProcess:
    with output.open("wb") as file:
        return KeptProcess(command, os.environ, None, file)


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9), ("import os; os.abort()", -6), ("", 0)],
)
def test_a_kept_process_ends_with_the_code_of_its_command(tmp_path: Path, program: str, code: int) -> None:
    assert kept([sys.executable, "-c", program], tmp_path / "out").wait(HANGS_SECONDS) == code


def test_a_command_that_cannot_be_executed_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kept(["/nowhere/program"], tmp_path / "out")
    (tmp_path / "text").write_text("no program")
    with pytest.raises(PermissionError):
        kept([str(tmp_path / "text")], tmp_path / "out")


def test_all_words_of_a_command_arrive_as_they_are(tmp_path: Path) -> None:
    words = ["", "two words", "\n", "é", "'", "x" * 100_000]
    process = kept([sys.executable, "-c", "import sys; print(sys.argv[1:])", *words], tmp_path / "out")
    assert process.wait(HANGS_SECONDS) == 0
    assert (tmp_path / "out").read_text() == f"{words}\n"


FAMILY = """
(setsid sh -c 'echo $$; trap "" TERM INT HUP; sleep 300' &)
sh -c 'echo $$; sleep 300' &
sh -c 'echo $$; sleep 300'
true
"""


@pytest.mark.parametrize("own_group", [True, False])
def test_every_process_below_a_job_ends_when_the_run_is_killed(tmp_path: Path, own_group: bool) -> None:
    output = tmp_path / "out"
    family = ["sh", "-c", FAMILY.replace("echo $$", f"echo $$ >> {output}")]
    printed = "open(os.devnull, 'wb')" if own_group else "None"
    program = (
        "import os; from neaptide.live.runs.keeping import KeptProcess\n"
        f"KeptProcess({family}, os.environ, None, {printed}).wait()"
    )
    run = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.DEVNULL)
    members = numbers(output, 3)
    assert all(map(runs, members))
    os.kill(members[0], signal.SIGSTOP)
    run.kill()
    run.wait()
    wait_until(lambda: not any(map(runs, members)))


def test_a_job_ends_when_the_run_is_gone_before_it_has_heard_that_the_job_runs(tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = ["sh", "-c", f"sh -c 'echo $$ > {output}; exec sleep 300'; true"]
    line, theirs = socket.socketpair()
    words = [sys.executable, "-I", "-S", str(_KEEPER), str(theirs.fileno()), "own"]
    keeper = subprocess.Popen(words, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
    theirs.close()
    line.sendall(b"".join(word.encode() + b"\0" for word in (str(len(command)), *command)))
    (job,) = numbers(output, 1)
    line.close()  # the answer is unread, and the keeper's next read fails
    assert keeper.communicate(timeout=HANGS_SECONDS) == (None, b"")
    assert not runs(job)


def test_a_keeper_prints_nothing_however_many_signals_reach_it_at_once() -> None:
    program = (
        "import os, signal; from neaptide.live.runs.keeper import Keeper\n"
        "keeper = Keeper(0, 'own')\n"
        "for _ in range(70_000): os.kill(os.getpid(), signal.SIGCHLD)"  # more than a pipe holds
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=HANGS_SECONDS, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_what_a_job_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    output = tmp_path / "out"
    process = kept(["sh", "-c", "sh -c 'echo $$; exec sleep 300' & sleep 0.5"], output)
    assert process.wait(HANGS_SECONDS) == 0
    assert not runs(numbers(output, 1)[0])


def test_a_job_obeys_an_interrupt_though_a_shell_has_background_programs_ignore_it(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = kept([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(300)"], tmp_path / "out")
    finally:
        signal.signal(signal.SIGINT, before)
    numbers(tmp_path / "out", 1)
    process.signal(signal.SIGINT)
    assert process.wait(HANGS_SECONDS) == -signal.SIGINT
