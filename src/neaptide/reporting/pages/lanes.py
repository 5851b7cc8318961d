"""What each job did when, as values: a lane per job, and words where something notable begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from neaptide.core.control import events as ev
from neaptide.core.control.job import JobState, display_state
from neaptide.core.units import format_seconds
from neaptide.reporting.figures.colours import colour_of
from neaptide.reporting.logs.activity import Span, spans_of
from neaptide.reporting.logs.live_run import LiveRun
from neaptide.reporting.pages.plots import Scale

_LOOKS = {
    JobState.RUNNING: "iteration",
    JobState.READY: "waiting",
    JobState.QUEUED: "waiting",
    JobState.SUSPENDED: "away",
}
_APART = 9.0  # per cent of the width that words at a lane take


@dataclass(frozen=True, slots=True)
class Piece:
    """A time in one state; `look` is its class in the style sheet."""

    x: float
    width: float
    look: str
    words: str


@dataclass(frozen=True, slots=True)
class Label:
    """Words that begin at a place, in per cent of the width; of those near the right edge, the end is there."""

    place: float
    words: str

    @property
    def late(self) -> bool:
        return self.place > 100 - _APART


@dataclass(frozen=True, slots=True)
class Lane:
    """One job."""

    name: str
    colour: str
    pieces: tuple[Piece, ...]
    stalls: tuple[float, ...]  # where each begins
    labels: tuple[Label, ...]


def lanes(run: LiveRun, names: Sequence[str], scale: Scale) -> list[Lane]:
    """A lane for each job that did something in the window, in the order of `names`."""
    spans = spans_of(run.entries, run.end_ns)
    found = []
    for index, name in enumerate(names):
        pieces = tuple(_visible(_pieces(run, name, spans), scale))
        if pieces:
            stalls = [e.at_ns for e in run.entries if isinstance(e, ev.JobStalled) and e.job == name]
            inside = tuple(scale.x(at_ns) for at_ns in stalls if _is_inside(at_ns, scale))
            found.append(Lane(name, colour_of(index), pieces, inside, tuple(_labels(run, name, stalls, scale))))
    return found


def _pieces(run: LiveRun, name: str, spans: Mapping[str, Sequence[Span]]) -> Iterator[tuple[int, int, str, str]]:
    """Start, end, look and words of everything that a job did: its start-up, its measuring, and its states."""
    result = next((each for each in run.results if each.name == name), None)
    if result is not None:
        began_ns = round(result.began_seconds * 1e9)
        ended_ns = began_ns + round(result.seconds * 1e9)
        if run.outside:
            yield began_ns, ended_ns, "iteration", "runs"
            return
        yield began_ns, ended_ns, "process", "its process runs"
    if (measuring := run.measuring.get(name)) is not None:
        yield measuring.began_ns, measuring.arrived_ns, "measuring", "is measured"
    for span in spans.get(name, ()):
        yield span.start_ns, span.end_ns, _LOOKS[span.state], display_state(span.state).word


def _visible(pieces: Iterator[tuple[int, int, str, str]], scale: Scale) -> Iterator[Piece]:
    for start_ns, end_ns, look, words in pieces:
        first, last = max(start_ns, scale.window.start_ns), min(end_ns, scale.window.end_ns)
        if last > first:
            x = scale.x(first)
            yield Piece(x, max(scale.x(last) - x, 0.3), look, f"{words}, {format_seconds((end_ns - start_ns) / 1e9)}")


def _labels(run: LiveRun, name: str, stalls_ns: Sequence[int], scale: Scale) -> Iterator[Label]:
    """Where measuring, evictions and stalls begin and where the job arrives; words that would overlap are left out."""
    wanted: list[tuple[int, str]] = []
    if (measuring := run.measuring.get(name)) is not None:
        wanted += [(measuring.began_ns, "measuring"), (measuring.arrived_ns, "arrives")]
    evictions = [e for e in run.entries if isinstance(e, ev.JobEvicted) and e.job == name and not e.unresponsive]
    wanted += [(each.at_ns, "evicted") for each in evictions]
    if stalls_ns:
        wanted.append((stalls_ns[0], f"{len(stalls_ns):,} {'stall' if len(stalls_ns) == 1 else 'stalls'}"))
    last: tuple[float, str] | None = None
    for at_ns, words in sorted(wanted):
        place = scale.percent(at_ns)
        if not _is_inside(at_ns, scale):
            continue
        if last is not None and place - last[0] < _APART:
            last = (last[0], f"{last[1]}, {words}" if words not in last[1] else last[1])
            continue
        if last is not None:
            yield Label(*last)
        last = (place, words)
    if last is not None:
        yield Label(*last)


def _is_inside(at_ns: int, scale: Scale) -> bool:
    return scale.window.start_ns <= at_ns <= scale.window.end_ns
