"""Measures a job's first iterations while it runs them, and makes the trace that the daemon plans with.

It changes no result of the program: the recorder only observes, and draws no random number.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import torch

from neaptide.capture.recording.cutting import Where
from neaptide.capture.recording.hooks import watching
from neaptide.capture.session import CLOSING, SETTLING, CaptureError, Session
from neaptide.devices.interface import DeviceAgent
from neaptide.live.job.measurer import Measured

_RECORDED = 1
_TIMED = 2  # pairs of iterations
_RECORDING = SETTLING + _RECORDED + CLOSING
_ITERATIONS = _RECORDING + 2 * _TIMED
# For this many calls, a program that calls its model with gradients on is assumed to be training and about to step.
_CALLS_BEFORE_A_STEP = 32
_RESTARTS = 3


class FirstIterations:
    """A Measurer with capture's recorder and the device's own log of its kernels."""

    def __init__(self, agent: DeviceAgent) -> None:
        self._agent = agent
        self._device = torch.device(agent.device_type)
        self._session: Session | None = None
        self._watching = ExitStack()
        self._advances = 0
        self._untrained = 0
        self._restarts = 0
        self._outdated = False
        self._begun = 0  # iterations, measured or not, without evaluations

    def begin(self, serving: bool, trained: bool, name: Callable[[], str]) -> Measured | None:
        if self._outdated:
            self.stop()
        if serving and trained and self._advances < _ITERATIONS:  # an evaluation came in between
            if 0 < self._advances <= _RECORDING and self._restarts < _RESTARTS:
                self._restarts += 1
                self.stop()
            return None
        if not serving and not trained:
            self._untrained += 1
            if self._untrained <= _CALLS_BEFORE_A_STEP:
                self._begun += 1
                return None
        if self._advance():
            self._begun += 1
            return None
        measured = self._measured(name())
        self.stop()
        return measured

    def change(self) -> None:
        self._outdated = True  # stop later: the optimizer that has just stepped may yet call the recorder
        self._begun = 1

    def stop(self) -> None:
        self._watching.close()
        if self._session is not None:
            self._session.close()
        self._session, self._advances, self._outdated = None, 0, False

    def _advance(self) -> bool:
        if self._session is None:
            self._session = Session(self._device, recorded=_RECORDED, timed=_TIMED, kernels=self._agent)
            self._watching.enter_context(watching(self._session.recorder))
        going_on = self._session.advance()
        self._advances += 1
        if self._advances > _RECORDING:  # later iterations are timed, and hooks take time
            self._watching.close()
        return going_on

    def _measured(self, name: str) -> Measured | None:
        assert self._session is not None
        where = Where(
            name=name,
            device=self._agent.spec_name,
            sms=self._agent.sms,
            batch=0,
            estimated=False,
            asynchronous=True,
        )
        try:
            trace = self._session.trace(where)
        except CaptureError:  # nothing ran on the device
            return None
        return Measured(trace, self._begun, self._session.op_of_kernel)
