"""What each job did when, as values: a lane per job, and words where something notable begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from neaptide.core.control import events as ev
from neaptide.core.control.job import JobState, display_state
from neaptide.core.units import format_seconds
from neaptide.reporting.figures.colours import colour_of
from neaptide.reporting.logs.activity import StateSpan, spans_of
from neaptide.reporting.logs.live_run import LiveRun
from neaptide.reporting.pages.plots import Scale

_LOOKS = {
    JobState.RUNNING: "iteration",
    JobState.READY: "waiting",
    JobState.QUEUED: "waiting",
    JobState.SUSPENDED: "away",
}
# Per cent of a drawing's width that a letter takes at most: on a page for a screen, and on one of 360 pixels.
_LETTER, _LETTER_IF_NARROW = 1.1, 2.2


@dataclass(frozen=True, slots=True)
class Piece:
    """A time in one state; `look` is its class in the style sheet."""

    x: float
    width: float
    look: str
    words: str


@dataclass(frozen=True, slots=True)
class Label:
    """Words that begin at a place, in per cent of the width; a `late` label ends at the right edge."""

    place: float
    words: str
    late: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """What one job did in the window."""

    name: str
    colour: str
    pieces: tuple[Piece, ...]
    stalls: tuple[float, ...]  # where each begins
    labels: tuple[Label, ...]
    labels_if_narrow: tuple[Label, ...]


def lanes(run: LiveRun, names: Sequence[str], scale: Scale) -> list[Lane]:
    """A lane for each job that did something in the window, in the order of `names`."""
    spans = spans_of(run.entries, run.end_ns)
    found = []
    for index, name in enumerate(names):
        pieces = tuple(_visible(_pieces(run, name, spans), scale))
        if pieces:
            stalls = [e.at_ns for e in run.entries if isinstance(e, ev.JobStalled) and e.job == name]
            inside = tuple(scale.x(at_ns) for at_ns in stalls if _is_inside(at_ns, scale))
            events = _notable(run, name, stalls, scale)
            labels, if_narrow = (tuple(_labels(events, letter)) for letter in (_LETTER, _LETTER_IF_NARROW))
            found.append(Lane(name, colour_of(index), pieces, inside, labels, if_narrow))
    return found


def _pieces(run: LiveRun, name: str, spans: Mapping[str, Sequence[StateSpan]]) -> Iterator[tuple[int, int, str, str]]:
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


def _notable(run: LiveRun, name: str, stalls_ns: Sequence[int], scale: Scale) -> list[tuple[float, str]]:
    """The places where measuring, evictions and stalls begin and where the job arrives, in order, with words."""
    wanted: list[tuple[int, str]] = []
    if (measuring := run.measuring.get(name)) is not None:
        wanted += [(measuring.began_ns, "measuring"), (measuring.arrived_ns, "arrives")]
    evictions = [e for e in run.entries if isinstance(e, ev.JobEvicted) and e.job == name and not e.unresponsive]
    wanted += [(each.at_ns, "evicted") for each in evictions]
    if stalls_ns:
        wanted.append((stalls_ns[0], f"{len(stalls_ns):,} {'stall' if len(stalls_ns) == 1 else 'stalls'}"))
    return [(scale.percent(at_ns), words) for at_ns, words in sorted(wanted) if _is_inside(at_ns, scale)]


def _labels(events: Sequence[tuple[float, str]], letter: float) -> list[Label]:
    """A label for each event; one that would overlap the label before it adds its words to that one."""
    found: list[Label] = []
    for place, words in events:
        label = _label(place, words, letter)
        while found and _start(label, letter) < _start(found[-1], letter) + _width(found[-1], letter):
            before = found.pop()
            more = [each for each in label.words.split(", ") if each not in before.words.split(", ")]
            label = _label(before.place, ", ".join([before.words, *more]), letter)
        found.append(label)
    return found


def _label(place: float, words: str, letter: float) -> Label:
    return Label(place, words, late=place + letter * len(words) > 100)


def _start(label: Label, letter: float) -> float:
    return 100 - _width(label, letter) if label.late else label.place


def _width(label: Label, letter: float) -> float:
    return letter * (len(label.words) + 1)  # and a gap


def _is_inside(at_ns: int, scale: Scale) -> bool:
    return scale.window.start_ns <= at_ns <= scale.window.end_ns
