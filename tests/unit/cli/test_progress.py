"""A progress bar is shown for long work, and only on a terminal."""

from __future__ import annotations

import errno
import io
from contextlib import redirect_stderr, redirect_stdout
from threading import Event

import pytest
from rich.progress import Progress

from hangs import HANGS_SECONDS
from neaptide.reporting.terminal import progress as module
from neaptide.reporting.terminal.progress import progress, script_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Everything is slow, and the event tells when a bar shows."""
    event = Event()
    start = Progress.start

    def start_and_tell(bar: Progress) -> None:
        start(bar)
        event.set()

    monkeypatch.setattr(Progress, "start", start_and_tell)
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    return event


def test_quick_work_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 1000.0)
    with redirect_stderr(Terminal()) as terminal, progress("estimating x") as on_progress:
        on_progress(1, 3)
    assert "estimating" not in terminal.getvalue()


def test_no_bar_is_shown_in_a_pipe(shown: Event, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("estimating x") as on_progress, script_progress("train.py") as on_script:
        on_progress(1, 3)
        on_script(1, 3)
    assert capsys.readouterr() == ("", "")
    assert not shown.is_set()


@pytest.mark.usefixtures("shown")
def test_a_closed_terminal_does_not_fail_the_script_that_is_followed() -> None:
    class Closed(Terminal):
        tried = False

        def write(self, text: str) -> int:  # noqa: ARG002
            self.tried = True
            raise OSError(errno.EIO, "Input/output error")

    with redirect_stdout(Terminal()), redirect_stderr(Closed()) as closed, script_progress("train.py") as on_script:
        on_script(1, 3)
    assert closed.tried


def test_slow_work_shows_a_bar_that_vanishes_at_the_end(shown: Event) -> None:
    with redirect_stderr(Terminal()) as terminal:
        with progress("estimating x") as on_progress:
            assert shown.wait(HANGS_SECONDS)
            on_progress(1, 3)
        assert "estimating x" in terminal.getvalue()
        assert "1/3" in terminal.getvalue()
        assert terminal.getvalue().endswith("\x1b[2K")  # the line is wiped


def test_an_error_ends_the_bar_and_is_raised(shown: Event) -> None:
    def fail() -> None:
        with progress("estimating x"):
            assert shown.wait(HANGS_SECONDS)
            raise ValueError("no memory")

    with redirect_stderr(Terminal()) as terminal, pytest.raises(ValueError, match="no memory"):
        fail()
    assert terminal.getvalue().endswith("\x1b[2K")


def test_slow_work_prints_lines_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    enough = Event()

    def complain(line: str) -> None:
        said.append(line)
        if len(said) > 1:
            enough.set()

    monkeypatch.setattr(module, "_LINE_SECONDS", 0.01)
    monkeypatch.setattr(module, "complain", complain)
    with redirect_stderr(io.StringIO()), progress("estimating x") as on_progress:
        on_progress(1, 3)
        assert enough.wait(60)
    assert said[0].startswith("estimating x: ")
    assert said[1].startswith("estimating x: 1 of 3, ")


@pytest.mark.usefixtures("shown")
def test_a_script_that_writes_to_the_same_terminal_gets_whole_lines() -> None:
    with (
        redirect_stdout(Terminal()),
        redirect_stderr(Terminal()) as terminal,
        script_progress("train.py") as on_progress,
    ):
        on_progress(1, 8)
    assert terminal.getvalue() == "neaptide: 1 of 8 iterations of train.py seen\n"
