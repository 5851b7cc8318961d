import io
import sys

import pytest

from neaptide.core.text import complain, printable


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
