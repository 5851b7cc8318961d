"""A job's iterations, measured from the device's log of its kernels: the device is a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from neaptide.core.traces.leases import LeaseOverhead, Leases
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Phase
from neaptide.core.traces.trace_format import decode, encode
from neaptide.devices.interface import KernelRecord, MemoryFigures
from neaptide.live.job.kernel_trace import JobOrigin, LoggedIteration, trace_of
from neaptide.live.job.measurer import KernelMeasurer, Measured

MS = 1_000_000
REST = 100
FORWARD, WHOLE = 3, 6
LEVELS = (150, 300, 500, 400, 250, 120)  # bytes needed while each kernel of an iteration runs


class ScriptedDevice:
    """A device that runs each kernel 2 ms after its launch for 3 ms, and logs those that are launched while it logs."""

    spec_name, sms = "soft", 4

    def __init__(self) -> None:
        self.count = 0
        self.now_ns = 0
        self.needed_bytes = REST
        self.logged: list[KernelRecord] | None = None
        self.slack_bytes = 50
        self.framework_bytes = 0

    def launch(self, needed_bytes: int, name: str = "mm", slow: int = 1) -> None:
        self.count += 1
        self.now_ns += 10 * MS
        self.needed_bytes = needed_bytes
        if self.logged is not None:
            times = self.now_ns, self.now_ns + 2 * MS, self.now_ns + (2 + 3 * slow) * MS
            self.logged.append(
                KernelRecord(name, hash(name), *times, needed_bytes, needed_bytes + self.slack_bytes, 7, 0, 2)
            )

    def launched(self) -> int:
        return self.count

    def memory(self) -> MemoryFigures:
        held = self.needed_bytes + 20
        return MemoryFigures(self.needed_bytes, 0, held, 0, 60, self.framework_bytes)

    @contextmanager
    def log_kernels(self, records: int) -> Iterator[ScriptedDevice]:  # noqa: ARG002
        self.logged, kept = [], []
        self._kept = kept
        try:
            yield self
        finally:
            kept += self.logged
            self.logged = None

    def read(self) -> Sequence[KernelRecord]:
        return self._kept

    def dropped(self) -> int:
        return 0


class Program:
    def __init__(self) -> None:
        self.device = ScriptedDevice()
        self.measurer = KernelMeasurer(self.device)  # type: ignore[arg-type]

    def begin(self, serving: bool = False, trained: bool = True) -> Measured | None:
        return self.measurer.begin(serving, trained, lambda: "job")

    def iterate(self, levels: Sequence[int] = LEVELS, trained: bool = True, slow: int = 1) -> Measured | None:
        """One training iteration; what the measurer says at its beginning."""
        measured = self.begin(trained=trained)
        for kernel, level in enumerate(levels):
            if kernel == FORWARD:
                self.measurer.end_forward()
            self.device.launch(level, slow=slow)
        self.device.needed_bytes = REST
        return measured

    def measure(self) -> Measured:
        for _ in range(20):
            if (measured := self.iterate()) is not None:
                return measured
        pytest.fail("it was not measured")


def test_the_trace_has_an_op_for_each_kernel_and_the_curve_of_the_devices_log() -> None:
    measured = Program().measure()
    trace = decode(encode(measured.trace))
    trace.check()
    assert trace.held_bytes.tolist() == [level + 7 for level in LEVELS]  # with the kernels' scratch
    assert trace.persistent_bytes == REST
    assert trace.ops.phase.tolist() == [Phase.FORWARD] * FORWARD + [Phase.BACKWARD] * (WHOLE - FORWARD)
    assert trace.forward_end == FORWARD
    assert trace.ops.fill.tolist() == [0.5] * WHOLE
    assert trace.ops.seconds == pytest.approx([0.003] * WHOLE)  # the 2 ms before it are a wait
    assert trace.ops.host_seconds == pytest.approx([0] + [0.01] * (WHOLE - 1))
    assert (trace.variation, measured.iterations) == ("", 4)
    assert measured.op_of_kernel is not None
    assert measured.op_of_kernel.tolist() == list(range(WHOLE))


def test_what_the_device_counts_besides_tensors_is_the_frameworks() -> None:
    program = Program()
    program.device.framework_bytes = 40
    measured = program.measure()
    trace = decode(encode(measured.trace))
    trace.check()
    assert (trace.framework_bytes, trace.persistent_bytes) == (40, REST)
    assert trace.held_bytes.tolist() == [level + 7 for level in LEVELS]
    # Beside it, the 20 bytes between iterations that are leased and in no tensor.
    assert Profile.of(trace, Leases.of(trace, measured.overhead)).framework_bytes == 40 + 20


def test_leases_are_what_was_held_beyond_what_was_needed() -> None:
    overhead = Program().measure().overhead
    assert overhead == LeaseOverhead(peak_bytes=50 - 7, most_bytes=60, at_rest_bytes=20)


def test_an_iteration_that_another_job_slows_down_does_not_count() -> None:
    program = Program()
    for slow in (1, 1, 5, 1):
        program.iterate(slow=slow)
    measured = program.iterate()
    assert measured is not None
    assert measured.trace.ops.seconds == pytest.approx([0.003] * WHOLE)


def test_of_iterations_that_differ_the_one_with_the_highest_peak_is_taken() -> None:
    program = Program()
    for levels in (LEVELS, LEVELS, (900, 200), LEVELS):
        program.iterate(levels)
    measured = program.iterate()
    assert measured is not None
    assert measured.trace.held_bytes.tolist() == [907, 207]
    assert measured.trace.variation == "iterations differ: they launch 2 to 6 kernels"


def test_an_evaluation_in_between_is_not_part_of_the_trace() -> None:
    program = Program()
    for _ in range(4):
        program.iterate()
        assert program.begin(serving=True) is None
        program.device.launch(5000)
        program.device.needed_bytes = REST
    measured = program.iterate()
    assert measured is not None
    assert measured.trace.peak_bytes == max(LEVELS) + 7
    assert measured.iterations == 4


def test_a_program_that_only_serves_is_measured_call_by_call() -> None:
    program = Program()
    measured = None
    while measured is None:
        measured = program.begin(serving=True, trained=False)
        program.device.launch(300)
        program.device.needed_bytes = REST
    assert measured.trace.ops.phase.tolist() == [Phase.INFERENCE]
    assert measured.trace.persistent_bytes == REST


def test_calls_with_gradients_are_taken_to_come_before_a_step_for_a_while() -> None:
    program = Program()
    assert [program.iterate(trained=False) for _ in range(36)] == [None] * 36
    assert program.iterate(trained=False) is not None


def test_another_optimizer_makes_it_start_again() -> None:
    program = Program()
    for _ in range(4):
        program.iterate((900, 200))
    program.measurer.change()
    assert program.measure().trace.peak_bytes == max(LEVELS) + 7


def test_an_iteration_without_kernels_is_no_measurement() -> None:
    program = Program()
    assert [program.iterate(()) for _ in range(10)] == [None] * 10
    assert program.measure().trace.peak_bytes == max(LEVELS) + 7


def test_a_level_below_the_bytes_at_rest_counts_as_at_rest() -> None:
    kernels = [KernelRecord("mm", 1, i, i, i + 1, level, level, 0, 0, 1) for i, level in enumerate((40, 200, 90, 300))]
    trace, _ = trace_of([LoggedIteration(kernels, 2, 100)], JobOrigin("job", "soft", 1, serving=False))
    trace.check()
    assert trace.held_bytes.tolist() == [100, 200, 100, 300]


def test_very_many_kernels_become_ops_in_groups_that_hold_as_much() -> None:
    levels = np.random.default_rng(1).integers(100, 10_000, 20_000).tolist()
    kernels = [KernelRecord("mm", 1, i, i, i + 3, level, level, 0, 0, 1) for i, level in enumerate(levels)]
    trace, op_of_kernel = trace_of([LoggedIteration(kernels, 0, 100)], JobOrigin("job", "soft", 1, serving=False))
    trace.check()
    assert len(trace.ops) < 8192
    assert trace.peak_bytes == max(levels)
    assert all(trace.held_bytes[op] >= level for op, level in zip(op_of_kernel.tolist(), levels, strict=True))


def test_the_time_in_which_the_host_waits_for_a_full_queue_is_not_the_hosts() -> None:
    """Each kernel takes 10 ms; the host launches one every 1 ms until 64 are in flight, then as they end."""
    kernels, ended = [], [0]
    launch = 0
    for index in range(200):
        launch = max(launch + 1 * MS, ended[index - 64] if index >= 64 else 0)
        start = max(launch, ended[-1])
        ended.append(start + 10 * MS)
        kernels.append(KernelRecord("mm", 1, launch, start, ended[-1], 200, 200, 0, 0, 1))
    trace, _ = trace_of([LoggedIteration(kernels, 0, 100)], JobOrigin("job", "soft", 1, serving=False))
    assert trace.ops.host_seconds.sum() < 0.1
    assert trace.seconds == pytest.approx(2.0, rel=0.01)
