"""One capture, iteration by iteration: record some, then time some without the recorder.

Its owner calls `advance` between iterations, until `advance` returns False.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter

import numpy as np
import torch

from neaptide.capture.recording.accumulation import undo_copies
from neaptide.capture.recording.cutting import (
    Times,
    Where,
    held_between,
    held_storages,
    low_point,
    trace_of,
    variation_of,
)
from neaptide.capture.recording.log import Log
from neaptide.capture.recording.recorder import Recorder
from neaptide.capture.timing.device_times import Aside, KernelRun, logged, times_from
from neaptide.capture.timing.profiler_times import Events, OpSpan, match, profiled
from neaptide.core.traces.columns import Integers
from neaptide.core.traces.trace import Trace
from neaptide.devices.local import local_device

# Recorded iterations around those that count: the first one allocates the memory that outlives iterations, and the last
# one shows which memory the iteration before it left behind.
SETTLING, CLOSING = 1, 1


class CaptureError(ValueError):
    """Nothing could be captured."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A trace, and where its ops and tensors are in the recorder's log."""

    trace: Trace
    start: int  # the log's kernel that is the trace's first op
    end: int
    tensor_of_storage: Mapping[int, int]


class Session:
    """Captures the iterations between its `advance` calls. Its owner reports modules and optimizers to `recorder`."""

    def __init__(
        self,
        device: torch.device,
        recorded: int = 1,
        timed: int = 2,
        cut_at_low_point: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
        recorder: Callable[..., Recorder] = Recorder,
        aside: Aside | None = None,
    ) -> None:
        self._device = device
        self._kernels = local_device(device)  # None: the device keeps no log of its kernels
        self._aside = aside or Aside()  # work that is not the program's
        self.recorder = recorder(device, self._kernels.launched) if self._kernels else recorder(device)
        # One instrument per iteration. Plain iterations give the step time, and profiled ones divide it among the ops;
        # where the device keeps a log of its kernels, the log gives both.
        instruments = ["record"] * (SETTLING + recorded + CLOSING)
        if self._kernels is not None:
            instruments += ["log"] * (2 * timed)
        elif timed:
            instruments += ["plain"] * timed + ["profile"] * timed + ["memory"]
        self._instruments = instruments
        self._cut_at_low_point = cut_at_low_point
        self._on_progress = on_progress
        self._stack = ExitStack()
        self._done = 0
        self._recording = False
        self._marks: list[int] = []
        self._step_seconds: list[float] = []
        self._profiles: list[Events] = []
        self._memory: Events | None = None
        self._started = 0.0
        self._launched_before = 0
        self._recorded_kernels = KernelRun()
        self._runs: list[KernelRun] = []
        self.op_of_kernel: Integers | None = None
        """Which op each kernel of an iteration belongs to, by the device's log; set once there is a trace."""

    @property
    def recording(self) -> bool:
        """Whether the current iteration is recorded."""
        return self._recording

    @property
    def settled(self) -> bool:
        """Whether an iteration was recorded whole after the settling one."""
        return len(self._marks) > SETTLING + 1 + CLOSING

    def advance(self) -> bool:
        """End the current iteration and begin the next; False when the capture has all it needs."""
        self._end_iteration()
        if self._on_progress is not None:
            self._on_progress(self._done, len(self._instruments))
        if self._done == len(self._instruments):
            return False
        instrument = self._instruments[self._done]
        self._done += 1
        if instrument == "record":
            if not self._recording:
                self._start_recording()
            gc.collect()  # so that reference cycles of one iteration are not freed inside another
            self._marks.append(self.recorder.clock)
        elif instrument == "plain":
            self._started = perf_counter()
        elif instrument == "log":
            assert self._kernels is not None
            self._runs.append(self._stack.enter_context(logged(self._kernels)))
        else:
            events = self._stack.enter_context(profiled(memory=instrument == "memory"))
            if instrument == "memory":
                self._memory = events
            else:
                self._profiles.append(events)
        return True

    def _start_recording(self) -> None:
        if self._kernels is not None:
            self._recorded_kernels = self._stack.enter_context(logged(self._kernels))
            self._launched_before = self._kernels.launched()
        self._stack.enter_context(self.recorder)
        self._recording = True

    def _end_iteration(self) -> None:
        previous = self._instruments[self._done - 1] if self._done else ""
        following = self._instruments[self._done] if self._done < len(self._instruments) else ""
        if previous == "plain":
            if self._device.type != "cpu":
                torch.accelerator.synchronize()
            self._step_seconds.append(perf_counter() - self._started)
        if previous != "record" or following != "record":
            self.close()

    def close(self) -> None:
        """Stop watching, at any point of the capture."""
        if self._recording:
            self._marks.append(self.recorder.clock)
            self._recording = False
        self._stack.close()

    def trace(self, where: Where, times: Callable[[Log, int, int], Times] | None = None) -> Trace:
        """The trace of a settled iteration; if iterations differ, of the one with the highest peak.

        An unfinished capture gives a trace, too, if it recorded one iteration. `times` replaces the measured times.
        """
        return self.captured(where, times).trace

    def captured(self, where: Where, times: Callable[[Log, int, int], Times] | None = None) -> Captured:
        """The trace, and where its ops and tensors are in the recorder's log."""
        log, marks = undo_copies(self.recorder.log), self._marks
        if len(marks) < 2 or marks[-1] == marks[0]:
            raise CaptureError(f"no operation on {self._device.type} was seen")
        cuts = [low_point(log, mark) for mark in marks[:-1]] + marks[-1:] if self._cut_at_low_point else marks
        settled = list(pairwise(cuts))
        settled = [cut for cut in settled[SETTLING:-CLOSING] if cut[0] < cut[1]] or settled[-1:]
        held = held_between(log)
        start, end = max(settled, key=lambda cut: (int(held[cut[0] : cut[1] + 1].max()), -cut[0]))
        variation = variation_of(log, marks[SETTLING:]) if len(marks) > SETTLING + 2 else ""
        if times is None:
            times = self._measured_times if self._kernels is None else self._logged_times
        chosen = times(log, start, end)
        row = {number: row for row, number in enumerate(held_storages(log, start, end))}
        rows = {number: row[kept] for number, kept in enumerate(log.stands_for) if kept in row}
        return Captured(trace_of(log, start, end, chosen, where, variation), start, end, rows)

    def _logged_times(self, log: Log, start: int, end: int) -> Times:
        """Times from the device's log of its kernels, or the recorder's times if no logged run is complete."""
        assert self._kernels is not None
        at = max(i for i, mark in enumerate(self._marks) if mark <= start)
        base, following = self._marks[at], self._marks[min(at + 1, len(self._marks) - 1)]
        names, op_of_kernel = [], []
        recorded, before = self._recorded_kernels, 0
        for (_, op), launched in zip(log.calls, log.launched, strict=True):
            until = launched - self._launched_before
            if base <= op < following:
                own = KernelRun(recorded.kernels[before:until]).without(self._aside).names
                names += own
                op_of_kernel += [op - base] * len(own)
            before = until
        runs = [run.without(self._aside) for run in self._runs]
        found = times_from(names, op_of_kernel, following - base, runs, self._kernels.sms)
        if found is None:
            seconds = np.array([kernel.seconds for kernel in log.kernels[start:end]])
            return Times(seconds, np.zeros(end - start), np.zeros(end - start, dtype=np.int64))
        self.op_of_kernel = (found.op_of_kernel - (start - base)) % (following - base)
        offsets = (np.arange(start, end) - base) % (following - base)
        return Times(
            found.seconds[offsets], found.host_seconds[offsets], found.scratch_bytes[offsets], found.fill[offsets]
        )

    def _measured_times(self, log: Log, start: int, end: int) -> Times:
        """Times from the profiled runs, or the recorder's if their ops do not match; scaled to the plain step time."""
        marks = self._marks
        count = end - start
        seconds = np.array([kernel.seconds for kernel in log.kernels[start:end]])
        host_seconds = np.zeros(count)
        scratch = np.zeros(count, dtype=np.int64)
        # A cut may lie a few ops after its mark; profiled iterations begin at a mark.
        at = max(i for i, mark in enumerate(marks) if mark <= start)
        base = marks[at]
        calls = [call for call in log.calls if base <= call[1] < marks[min(at + 1, len(marks) - 1)]]
        kernel_of_call = self._launching(calls, base)
        offsets = (np.arange(start, end) - base) % max(1, len(kernel_of_call))
        spans = [match(events.thread, [name for name, _ in calls]) for events in self._profiles]
        found = [spans_of_run for spans_of_run in spans if spans_of_run]
        if found:
            lengths = np.median([[span.end_seconds - span.start_seconds for span in run] for run in found], axis=0)
            gaps = np.median([_gaps(run) for run in found], axis=0)
            order = np.array(list(kernel_of_call.values()))
            seconds, host_seconds = lengths[order][offsets], gaps[order][offsets]
        remembered = match(self._memory.thread, [name for name, _ in calls]) if self._memory else None
        if remembered:
            order = np.array(list(kernel_of_call.values()))
            scratch = np.array([span.scratch_bytes for span in remembered], dtype=np.int64)[order][offsets]
        if self._step_seconds and (total := float(seconds.sum() + host_seconds.sum())) > 0:
            factor = median(self._step_seconds) / total
            seconds, host_seconds = seconds * factor, host_seconds * factor
        return Times(seconds, host_seconds, scratch)

    @staticmethod
    def _launching(calls: list[tuple[str, int]], base: int) -> dict[int, int]:
        """For each kernel from `base` on, the position of its call; of several calls at one kernel, the last."""
        return {kernel - base: position for position, (_, kernel) in enumerate(calls)}


def _gaps(run: list[OpSpan]) -> list[float]:
    """The host time before each op."""
    ends = [0.0, *(span.end_seconds for span in run)]
    return [max(0.0, span.start_seconds - end) for span, end in zip(run, ends, strict=False)]
