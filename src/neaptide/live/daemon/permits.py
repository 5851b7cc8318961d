"""Which iterations may run: permits and caps on the board.

A job's permit is the number of iterations that the policy has started. A training job that is alone has an open permit
(core.rules.permits).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from neaptide.core.rules.in_flight import in_flight_cap
from neaptide.core.rules.permits import permits_ahead
from neaptide.devices.board import PERMIT_ALL, Board, BoardError, Progress
from neaptide.live.daemon.attached_job import AttachedJob


class Permits:
    """The permits of the attached jobs."""

    def __init__(self, board: Board, jobs: Mapping[str, AttachedJob], now_ns: Callable[[], int]) -> None:
        self._board = board
        self._jobs = jobs
        self._now_ns = now_ns

    def give(self, job: AttachedJob) -> None:
        """Let the iterations run that the policy has started."""
        if job.unresponsive or not job.running:
            return
        job.permitted_ns = self._now_ns()
        ahead = permits_ahead(len(self._jobs), job.trains)
        permit = PERMIT_ALL if ahead is None else job.started + ahead
        if permit != job.permit:
            job.permit = permit
            self._board.set_permit(job.slot, permit)

    def close(self, job: AttachedJob) -> None:
        """Let the iterations that have begun go on, and no others: a permit that was not used is taken back."""
        with suppress(BoardError):  # its process has just died
            seen = self._board.progress(job.slot)
            permit = _begun(seen)
            while True:
                self._board.set_permit(job.slot, permit)
                job.permit = permit
                begun = self._board.progress(job.slot).iteration
                if begun <= permit or seen.permit != PERMIT_ALL:
                    return
                permit = begun  # it began while the permit was still open

    def reassert(self, job: AttachedJob) -> None:
        """Write the job's permit and cap again, as last given."""
        self._board.set_permit(job.slot, job.permit)
        if job.arrived:
            self.set_cap(job)

    def jobs_changed(self) -> None:
        """A job came or left: open permits and unbounded launches are only for a job that is alone."""
        for job in self._jobs.values():
            with suppress(BoardError):
                self.set_cap(job)
                if not job.arrived:
                    continue
                if permits_ahead(len(self._jobs), job.trains) is None:
                    self.give(job)
                elif job.runs_ahead:
                    self.close(job)
                    if job.started > job.permit:  # the policy has started an iteration that has not begun
                        self.give(job)

    def set_cap(self, job: AttachedJob) -> None:
        """Bound the kernels in flight, as the policy or the default says."""
        self._board.set_inflight_cap(job.slot, in_flight_cap(job.cap, len(self._jobs)))

    def close_unstarted(self) -> None:
        """After the policy's answers: close an open permit when the policy has not started the next iteration."""
        for job in self._jobs.values():
            if job.runs_ahead and not job.running:
                self.close(job)


def on_device(job: AttachedJob, seen: Progress) -> bool:
    """Whether an iteration of the job has begun, and has not ended."""
    return seen.taken and seen.pid == job.hello.pid and _begun(seen) > job.ended


def _begun(seen: Progress) -> int:
    """Iterations that have begun with a permit, or were let in while the daemon was silent."""
    permitted = seen.iteration if seen.permit == PERMIT_ALL else min(seen.iteration, seen.permit)
    return max(permitted, seen.entered)
