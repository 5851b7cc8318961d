"""Moves jobs' bytes to host memory and back. The processes do it themselves, at requests on the board.

A process sends no message when it has moved its bytes, so the daemon looks at the board until it has.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from neaptide.core.control import events as ev
from neaptide.core.rules.patience import ASK_AGAIN_NS, KEPT_NS
from neaptide.devices.board import Board, BoardError, Progress, Request, SlotState
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason

_IN_HOST_MEMORY = (SlotState.SUSPENDED, SlotState.EVICTED)


class HostMoves:
    """Asks jobs to move their bytes, and posts an event when they have."""

    def __init__(self, board: Board, post: Callable[[ev.Event], None], now_ns: Callable[[], int]) -> None:
        self._board = board
        self._post = post
        self._now_ns = now_ns
        self._asked: dict[str, AttachedJob] = {}  # jobs that have not answered

    @property
    def in_progress(self) -> list[AttachedJob]:
        """Jobs that were asked to move their bytes and may still do so."""
        return [job for job in self._asked.values() if not job.unresponsive]

    def awaits(self, job: AttachedJob) -> bool:
        """Whether the job was asked to move its bytes and has not answered."""
        return job.name in self._asked

    def evict(self, job: AttachedJob, reason: EvictionReason) -> None:
        """Have the job's bytes moved to host memory. If they are there already, only the reason changes."""
        was_here, job.eviction = job.eviction is None, reason
        if was_here:
            self._ask(job)

    def restore(self, job: AttachedJob, reason: EvictionReason) -> None:
        """Have the job's bytes moved back, if they are in host memory for this reason."""
        if job.eviction is reason:
            job.eviction, job.last_eviction = None, reason
            self._ask(job)

    def greet(self, job: AttachedJob) -> None:
        """Have the bytes of a new connection moved back, if an earlier daemon had evicted them."""
        seen = self._board.progress(job.slot)
        if seen.request is not Request.NONE or seen.state in _IN_HOST_MEMORY:
            job.last_eviction = EvictionReason.QUEUE
            self._ask(job)

    def forget(self, job: AttachedJob) -> None:
        self._asked.pop(job.name, None)

    def look(self) -> None:
        """See which jobs have moved their bytes, and post it."""
        for job in list(self._asked.values()):
            seen = self._board.progress(job.slot)
            if seen.request is not Request.NONE or job.unresponsive:
                continue
            evicted = seen.state in _IN_HOST_MEMORY
            if not evicted and job.eviction is not None:
                self._keep(job, job.eviction)
                continue
            if evicted and job.eviction is None:  # the process finished the request without moving its bytes
                if self._now_ns() - job.asked_ns > ASK_AGAIN_NS:
                    self._ask(job)
                continue
            del self._asked[job.name]
            if evicted and job.eviction is EvictionReason.POLICY:
                self._post(ev.JobSuspended(self._now_ns(), job.name))
            elif not evicted and job.last_eviction is not EvictionReason.QUEUE:
                self._post(ev.JobResumed(self._now_ns(), job.name))

    def _keep(self, job: AttachedJob, reason: EvictionReason) -> None:
        """The process could not move its bytes to host memory: they stay where they are.

        A job that must not be on the device is asked again later. Otherwise the job goes on, and others give way.
        """
        now_ns = self._now_ns()
        if reason is EvictionReason.QUEUE:
            if now_ns - job.asked_ns > KEPT_NS:
                self._ask(job)
            return
        del self._asked[job.name]
        job.eviction, job.last_eviction, job.kept_until_ns = None, reason, now_ns + KEPT_NS
        self._post(ev.JobResumed(now_ns, job.name, kept=True))

    def reassert(self, job: AttachedJob, seen: Progress) -> None:
        """Ask again, if the job has moved its bytes as asked and they are not where they are to be any more."""
        if self.awaits(job) or seen.request is not Request.NONE:
            return
        if (seen.state in _IN_HOST_MEMORY) is not (job.eviction is not None):
            self._board.set_request(job.slot, _request(job))

    def _ask(self, job: AttachedJob) -> None:
        self._asked[job.name] = job
        job.asked_ns = self._now_ns()
        with suppress(BoardError):  # its process has just died
            self._board.set_request(job.slot, _request(job))


def _request(job: AttachedJob) -> Request:
    """The request that brings the job's bytes to where they are to be."""
    evict = job.eviction is not None
    if (job.eviction or job.last_eviction) is EvictionReason.POLICY:
        return Request.SUSPEND if evict else Request.RESUME
    return Request.EVICT if evict else Request.RESTORE
