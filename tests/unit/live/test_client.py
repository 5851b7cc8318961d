"""A job's client without torch, a thread or a socket: a scripted device and measurer, and the messages it sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from itertools import pairwise

import pytest

from neaptide.core.control.job import JobKind
from neaptide.core.control.need import Need
from neaptide.core.traces.trace_format import decode
from neaptide.devices.interface import IterationFacts, KernelLog, MemoryFigures
from neaptide.live.job.client import Client
from neaptide.live.job.measurer import Measured
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.framing import DaemonInbox
from neaptide.live.protocol.job_settings import JobSettings
from tides import MIB, tide

TRACE = tide("job", 50, 0.004, 10 * MIB, 40 * MIB)
WELCOME = say.Welcome(True, "job", 100 * MIB, "none")


class ScriptedAgent:
    """A DeviceAgent that notes what it is told."""

    slot, device_type, spec_name, sms = 3, "scripted", "soft", 2
    supplies = frozenset(Need)

    def __init__(self) -> None:
        self.done: list[str] = []
        self.sent: list[say.Message] = []
        self.after_device: list[say.Message] = []
        self.expected: list[int] = []
        self.idle = False
        self.peak_bytes = TRACE.peak_bytes
        self.allocated_bytes = 100
        self.needed_bytes = TRACE.persistent_bytes
        self.launches = 0
        self.begun = 0  # iterations
        self._ended = 0
        self._armed = False

    def launch(self) -> None:
        self.launches += 1
        if self._armed:
            self._armed = False
            self.begun += 1

    def launched(self) -> int:
        return self.launches

    def send(self, frame: bytes, *, after_device: bool = False) -> bool:
        (self.after_device if after_device else self.sent).extend(DaemonInbox().feed(frame))
        return True

    def report_progress(self, frame: bytes) -> None:
        self.after_device.extend(DaemonInbox().feed(frame))

    def report_iteration(self, frame: bytes, facts: IterationFacts) -> None:
        assert facts.index == self.begun - 1
        self.after_device.extend(DaemonInbox().feed(frame[:-8] + (7).to_bytes(8, "big")))

    def hold_launches(self) -> None:
        self.done.append("hold")

    def release_launches(self) -> None:
        self.done.append("release")

    def refuse_launches(self, reason: str) -> None:
        self.done.append(reason)

    def run_without_daemon(self) -> None:
        self.done.append("alone")

    def arm_iteration(self) -> None:
        self._armed = True
        self.done.append("arm")

    def disarm_iteration(self) -> bool:
        armed, self._armed = self._armed, False
        self.done.append("disarm")
        return armed

    def end_iteration(self) -> IterationFacts | None:
        if self.begun == self._ended:
            return None
        self._ended = self.begun
        return IterationFacts(self.begun - 1, 5, self.peak_bytes, self.allocated_bytes)

    def take_recent(self) -> tuple[int, int]:
        return self.peak_bytes, self.allocated_bytes

    def expect(self, lease_levels: Sequence[int]) -> None:
        self.expected = list(lease_levels)

    def memory(self) -> MemoryFigures:
        return MemoryFigures(self.needed_bytes, TRACE.peak_bytes, 0, TRACE.peak_bytes, 0)

    def wait_for_held_launch(self, seconds: float) -> bool:
        raise NotImplementedError

    def not_the_clients(self, *_: object) -> None:
        pytest.fail("the client leaves this to its connection")

    connect_reports = disconnect_reports = iterations_ended = not_the_clients
    check = close = forget_after_fork = not_the_clients

    def log_kernels(self, records: int) -> AbstractContextManager[KernelLog]:
        raise NotImplementedError


class ScriptedMeasurer:
    """Has its trace when the third iteration begins."""

    def __init__(self) -> None:
        self.begun = 0
        self.changes = 0

    def begin(self, serving: bool, trained: bool, name: Callable[[], str]) -> Measured | None:  # noqa: ARG002
        self.begun += 1
        return Measured(TRACE, self.begun - 1) if self.begun == 3 else None

    def end_forward(self) -> None: ...

    def change(self) -> None:
        self.changes += 1


class Job:
    """A client, its device, and what a program and a daemon do with it."""

    def __init__(self, kind: JobKind = JobKind.TRAINING) -> None:
        self.agent = ScriptedAgent()
        self.measurers: list[ScriptedMeasurer] = []
        self.client = Client(self.agent, JobSettings(name="job", kind=kind), self._measurer)  # type: ignore[arg-type]
        self.client.hold()

    def _measurer(self) -> ScriptedMeasurer:
        self.measurers.append(ScriptedMeasurer())
        return self.measurers[-1]

    def iterate(self, count: int = 1, trained: bool = True) -> None:
        for _ in range(count):
            self.client.begin(serving=not trained, trained=trained)
            if not self.agent.idle:
                self.agent.launch()
            self.client.end_forward()
            self.client.end()

    def join(self) -> None:
        """Be measured, welcomed from the start."""
        self.client.hello(0)
        self.client.handle(WELCOME)
        self.iterate(3)


def test_the_first_launch_waits_for_the_welcome_and_is_released_once() -> None:
    job = Job()
    assert not job.client.hello(0).resumed
    assert job.agent.done == ["hold"]
    job.client.handle(WELCOME)
    job.client.lost()
    assert job.agent.done == ["hold", "release", "alone"]


@pytest.mark.parametrize("welcome_at", [0, 4])
def test_the_trace_is_sent_once_whether_the_welcome_or_the_trace_comes_first(welcome_at: int) -> None:
    job = Job()
    job.client.hello(0)
    for index in range(6):
        if index == welcome_at:
            job.client.handle(WELCOME)
        job.iterate()
    (profiled,) = [message for message in job.agent.sent if isinstance(message, say.Profiled)]
    assert profiled.measured == 2
    assert decode(profiled.trace).peak_bytes == TRACE.peak_bytes


def test_from_when_it_was_measured_every_iteration_is_armed_and_its_end_reported() -> None:
    job = Job()
    job.join()
    assert job.agent.done.count("arm") == 1
    assert job.agent.expected[0] == TRACE.peak_bytes
    job.iterate(2)
    ends = [message for message in job.agent.after_device if isinstance(message, say.IterationEnded)]
    assert [(end.index, end.size, end.took_ns) for end in ends] == [(0, 1.0, 7), (1, 1.0, 7), (2, 1.0, 7)]
    assert len([message for message in job.agent.after_device if isinstance(message, say.PhaseEnded)]) == 3


def test_an_iteration_that_launches_nothing_is_not_reported() -> None:
    job = Job()
    job.join()
    job.agent.idle = True
    job.iterate()
    job.agent.idle = False
    job.iterate()
    ends = [message for message in job.agent.after_device if isinstance(message, say.IterationEnded)]
    assert [end.index for end in ends] == [0, 1]


def test_an_iteration_that_allocates_twice_as_much_is_twice_as_large() -> None:
    job = Job()
    job.join()
    job.agent.allocated_bytes = 200
    job.iterate()
    (*_, end) = [message for message in job.agent.after_device if isinstance(message, say.IterationEnded)]
    assert end.size == 2.0


def test_growth_is_expected_on_the_board_and_told_to_this_daemon_and_the_next() -> None:
    job = Job()
    job.join()
    job.agent.peak_bytes = 2 * TRACE.peak_bytes
    job.iterate(2)
    assert [message for message in job.agent.sent if isinstance(message, say.Grew)] == [say.Grew(2 * TRACE.peak_bytes)]
    assert job.agent.expected[0] >= 2 * TRACE.peak_bytes
    job.client.lost()
    hello = job.client.hello(5)
    assert hello.resumed
    assert hello.trace is not None
    assert hello.ended == 5
    job.client.handle(say.Welcome(False, "job", 1 << 20, "none"))
    assert job.agent.sent[-1] == say.Grew(2 * TRACE.peak_bytes)


def test_without_a_daemon_the_job_goes_on_and_says_so_to_the_device_each_time() -> None:
    job = Job()
    job.client.lost()
    job.client.lost()
    assert job.agent.done == ["hold", "alone", "release", "alone"]


def test_a_refused_job_has_its_launches_refused(capfd: pytest.CaptureFixture[str]) -> None:
    job = Job()
    job.client.handle(say.JobRefused("it needs 9 GiB"))
    assert job.client.refused
    assert job.agent.done[-1] == "neaptide: job job was refused: it needs 9 GiB"
    assert capfd.readouterr().err == "neaptide: job job was refused: it needs 9 GiB\n"


def test_a_program_that_served_and_begins_to_train_is_measured_again() -> None:
    job = Job()
    job.client.hello(0)
    job.client.handle(WELCOME)
    job.iterate(4, trained=False)
    job.client.change()
    job.iterate(3)
    assert [measurer.changes for measurer in job.measurers] == [0, 1]
    assert len([message for message in job.agent.sent if isinstance(message, say.Profiled)]) == 2
    job.client.change()  # the second optimizer of a program that trains
    job.iterate(3)
    assert len(job.measurers) == 2


def test_every_iteration_of_an_inference_job_is_a_request_from_when_it_was_measured() -> None:
    job = Job(JobKind.INFERENCE)
    job.join()
    job.iterate()
    assert [message for message in job.agent.sent if isinstance(message, say.RequestArrived)] == [
        say.RequestArrived()
    ] * 2


def test_a_call_of_a_served_model_that_launches_nothing_is_withdrawn_and_the_next_one_is_a_request_again() -> None:
    job = Job(JobKind.INFERENCE)
    job.join()
    job.agent.sent.clear()
    job.agent.idle = True
    job.iterate()
    assert job.agent.sent == [say.RequestArrived(), say.CallWithdrawn()]
    job.agent.launch()  # outside of calls: it begins no iteration
    job.agent.idle = False
    job.iterate()
    assert job.agent.sent == [say.RequestArrived(), say.CallWithdrawn(), say.RequestArrived()]
    ends = [message.index for message in job.agent.after_device if isinstance(message, say.IterationEnded)]
    assert ends == [0, 1]


@pytest.mark.parametrize(
    ("failure", "farewell"), [(None, say.Goodbye()), ("ValueError: no", say.Failed("ValueError: no"))]
)
def test_a_job_that_leaves_says_how_when_the_device_has_passed_everything(
    failure: str | None, farewell: say.Message
) -> None:
    job = Job()
    job.client.hello(0)
    if failure is not None:
        job.client.fail(failure)
    job.client.leave()
    assert job.agent.after_device == [farewell]
    assert job.agent.done == ["hold", "release"]


def test_a_process_that_never_used_the_device_leaves_without_a_message() -> None:
    job = Job()
    job.client.leave()
    assert (job.agent.sent, job.agent.after_device) == ([], [])


class Threads:
    """A measured job whose program has threads; a test says what each of them does."""

    def __init__(self, kind: JobKind, threads: Sequence[ThreadPoolExecutor]) -> None:
        self.job, self._threads = Job(kind), threads
        self.job.join()
        self.job.agent.done.clear()
        self.job.agent.after_device.clear()

    def does(self, thread: int, *what: str) -> None:
        for each in what:
            self._threads[thread].submit(self._do, each).result()

    def _do(self, what: str) -> None:
        client, agent = self.job.client, self.job.agent
        match what:
            case "begin":
                client.begin(serving=False, trained=True)
            case "launch":
                agent.launch()
            case "end":
                client.end()

    @property
    def steps(self) -> list[int]:
        """Iterations that the daemon counts with each report."""
        extra = [message.extra for message in self.job.agent.after_device if isinstance(message, say.IterationEnded)]
        return [1 + after - before for before, after in pairwise([0, *extra])]


@pytest.fixture
def threads() -> Iterator[Sequence[ThreadPoolExecutor]]:
    with ExitStack() as stack:
        yield [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(3)]


def test_a_thread_that_begins_while_anothers_iteration_is_open_takes_part_in_it(
    threads: Sequence[ThreadPoolExecutor],
) -> None:
    program = Threads(JobKind.TRAINING, threads)
    program.does(0, "begin", "launch")
    program.does(1, "begin", "launch")
    assert program.job.agent.done == ["arm"]  # a second permit would come only after the end of the first
    program.does(0, "end")
    assert program.steps == [1]
    assert program.job.agent.done == ["arm", "arm"]  # the other thread is still inside
    program.does(1, "launch", "end")
    assert program.steps == [1, 1]
    assert program.job.agent.done == ["arm", "arm"]


def test_an_iteration_that_ends_after_another_thread_has_ended_the_processs_is_counted_with_the_next(
    threads: Sequence[ThreadPoolExecutor],
) -> None:
    program = Threads(JobKind.TRAINING, threads)
    for thread in (0, 1, 2):
        program.does(thread, "begin", "launch")
    for thread in (0, 1, 2):
        program.does(thread, "end")
    program.does(0, "begin", "launch", "end")
    assert program.steps == [1, 3]


def test_requests_that_overlap_are_answered_and_all_counted(threads: Sequence[ThreadPoolExecutor]) -> None:
    program = Threads(JobKind.INFERENCE, threads)
    program.job.agent.sent.clear()
    for _ in range(5):
        program.does(0, "begin", "launch")
        program.does(1, "begin", "launch")
        program.does(0, "end")
        program.does(1, "launch", "end")
    program.does(2, "begin", "launch", "end")
    assert sum(program.steps) == 11
    # There is a request for every iteration on the board, so that a policy starts none that nobody begins.
    assert program.job.agent.sent.count(say.RequestArrived()) == len(program.steps) == program.job.agent.begun - 1


def test_a_call_in_which_another_thread_takes_part_is_not_withdrawn(threads: Sequence[ThreadPoolExecutor]) -> None:
    program = Threads(JobKind.INFERENCE, threads)
    sent = program.job.agent.sent
    sent.clear()
    program.does(0, "begin")
    program.does(1, "begin")
    program.does(0, "end")
    assert sent == [say.RequestArrived()]
    program.does(1, "launch", "end")
    assert program.steps == [1]
    program.does(0, "begin", "end")
    assert sent == [say.RequestArrived(), say.RequestArrived(), say.CallWithdrawn()]


def test_a_thread_that_died_inside_an_iteration_does_not_keep_the_others_from_ending_theirs(
    threads: Sequence[ThreadPoolExecutor],
) -> None:
    program = Threads(JobKind.TRAINING, threads)
    with ThreadPoolExecutor(1) as dying:
        program._threads = [dying, *threads]
        program.does(0, "begin", "launch")
    program.does(1, "begin", "launch", "end")
    assert program.steps == [1]
    assert program.job.agent.done == ["arm"]
    program.does(2, "begin", "launch", "end")
    assert program.steps == [1, 1]


def test_iterations_that_hold_more_at_rest_for_good_are_measured_again() -> None:
    job = Job()
    job.join()
    job.agent.needed_bytes = 30 * MIB
    job.iterate(200)
    profiled = [message for message in job.agent.sent if isinstance(message, say.Profiled)]
    assert 2 <= len(profiled) <= 4
    assert len([message for message in job.agent.sent if isinstance(message, say.Grew)]) == 0
