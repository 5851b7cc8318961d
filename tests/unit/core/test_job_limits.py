"""What a job may say of itself: one set of limits for everybody who asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

import neaptide
from neaptide.core.control import job_limits as limits
from neaptide.core.control.job import JobKind
from neaptide.core.control.job_limits import checked_name, numbered_name, usable_name
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.framing import DaemonInbox, frame
from neaptide.live.protocol.job_settings import JobSettings
from neaptide.live.runs.launching import JobCommand

EDGES = [
    ("iterations", 1, limits.MOST_ITERATIONS, 0, limits.MOST_ITERATIONS + 1),
    ("priority", limits.LEAST_PRIORITY, limits.MOST_PRIORITY, limits.LEAST_PRIORITY - 1, limits.MOST_PRIORITY + 1),
    ("deadline_seconds", 1e-9, float(limits.MOST_DEADLINE_SECONDS), 0.0, limits.MOST_DEADLINE_SECONDS * 1.1),
]
MAKERS: list[Callable[..., Any]] = [
    lambda **values: JobSettings(name="a", kind=JobKind.INFERENCE, **values),
    lambda **values: JobCommand(name="a", command=("x",), kind="inference", **values),
]


@pytest.mark.parametrize(("field", "least", "most", "less", "more"), EDGES)
def test_every_value_within_the_limits_reaches_the_daemon(
    field: str, least: float, most: float, less: float, more: float
) -> None:
    for value in (least, most):
        hello = say.Hello(pid=1, slot=0, job="a", **{field: value})  # type: ignore[arg-type]
        assert next(iter(DaemonInbox().feed(frame(hello)))) == hello
        for make in MAKERS:
            make(**{field: value})
    for value in (less, more):
        for make in (*MAKERS, partial(neaptide.attach, kind="inference")):
            with pytest.raises(ValueError, match=r"^(iterations|the priority|the time for a batch) must be [^\n]*$"):
                make(**{field: value})
        wrong = say.Hello(pid=1, slot=0, job="a", **{field: value})  # type: ignore[arg-type]
        with pytest.raises(say.ProtocolError):
            list(DaemonInbox().feed(frame(wrong)))


@pytest.mark.parametrize(
    "name", ["\ud800x", "a\x1b[31m", "", " ", "a/b", ".a", "-o", "-5MiB", "a" * 41, "\U0001f600" * 20]
)
def test_a_name_that_cannot_be_shown_is_refused_in_one_line(name: str) -> None:
    for make in (checked_name, lambda name: JobSettings(name=name), lambda name: JobCommand(name=name, command=("x",))):
        with pytest.raises(ValueError, match=r"^[^\n]+$") as error:
            make(name)
        assert str(error.value).isprintable()
    if name:  # attach() without a name takes the program's
        with pytest.raises(ValueError, match="name"):
            neaptide.attach(name)


def test_any_file_or_program_gives_a_usable_name() -> None:
    for text in ("train", "\ud800x", "-c", ".hidden", "a\nb", "x" * 200, "\U0001f600" * 60, "", "...", "été"):
        assert checked_name(usable_name(text))
    assert usable_name("train") == "train"
    assert msgspec.msgpack.encode(usable_name("\U0001f600" * 60))
    assert numbered_name("train", 2) == "train-2"
    for text in ("x" * 200, "\U0001f600" * 60):
        assert checked_name(numbered_name(usable_name(text), 64)).endswith("-64")
