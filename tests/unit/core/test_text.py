import io
import os
import sys
from contextlib import suppress

import pytest

from neaptide.core import text as module
from neaptide.core.text import complain, complain_aside, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("training, 3 µs", "training, 3 µs"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("two\nlines", "two lines"),
        ("\u202ereversed", "\\u202ereversed"),
        ("\ud800", "\\ud800"),
    ],
)
def test_a_terminal_obeys_nothing_in_a_printable_text(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_complaint_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    complain("no daemon\nanswers")
    assert capsys.readouterr().err == "neaptide: no daemon answers\n"


class Unusable(io.StringIO):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def flush(self) -> None:
        raise self._error


def test_a_complaint_that_nobody_can_read_is_dropped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = io.StringIO()
    closed.close()
    for stderr in (Unusable(OSError("no space left")), Unusable(RuntimeError("no such widget")), closed, None):
        with monkeypatch.context() as without:
            without.setattr(sys, "stderr", stderr)
            complain("lost")
    assert capsys.readouterr() == ("", "")


def full_pipe() -> tuple[int, int]:
    """Both ends of a pipe that takes nothing more."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    for size in (65536, 1):
        with suppress(BlockingIOError):
            while True:
                os.write(write, b"x" * size)
    os.set_blocking(write, True)
    return read, write


def test_a_complaint_of_a_job_waits_for_no_reader_and_is_written_when_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MOMENT_SECONDS", 0.01)
    read, write = full_pipe()
    with open(read, "rb", buffering=0) as unread, open(write, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setattr(sys, "__stderr__", stderr)
        complain_aside("nobody reads")
        left = b""
        while not left.endswith(b"\n"):
            left = (left + unread.read(1 << 20)).lstrip(b"x")
    assert left == b"neaptide: nobody reads\n"


def test_a_complaint_of_a_job_comes_before_what_the_job_prints_next(capsys: pytest.CaptureFixture[str]) -> None:
    complain_aside("first")
    print("second", file=sys.stderr)
    assert capsys.readouterr().err == "neaptide: first\nsecond\n"
