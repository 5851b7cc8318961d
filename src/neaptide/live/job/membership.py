"""How a process takes part: prepared when torch has been imported, and a job from its first use of the device on.

Until then it has no slot and the daemon does not know it, so workers of data loaders and launchers of other processes
never become jobs. A child that is forked before the first use joins by itself; one forked later cannot use the device.
"""

from __future__ import annotations

import atexit
import multiprocessing.process
import multiprocessing.util
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

from neaptide.capture.boundaries import Boundaries
from neaptide.core.control.job import JobKind
from neaptide.core.text import complain_aside
from neaptide.core.units import format_bytes
from neaptide.devices import BoardFullError, DeviceAgent, DeviceName, find_kind
from neaptide.live.job.client import Client
from neaptide.live.job.connection import Connection
from neaptide.live.job.known_profiles import KnownProfiles, key_of_program, profiles_folder
from neaptide.live.job.measurer import KernelMeasurer
from neaptide.live.job.serving.requests import RequestBook
from neaptide.live.job.serving.servers import watch_servers
from neaptide.live.protocol.absence import Absence
from neaptide.live.protocol.job_settings import JobSettings
from neaptide.live.protocol.messages import Welcome
from neaptide.live.protocol.paths import check_folder

_SLOT_SECONDS = 0.5  # between looks for a free slot
_CALLS_ON_THE_CPU = 3  # before a program counts as one that works there; one call may only find out a shape


class Membership:
    """The one membership of this process. It is a Listener of the program's iterations."""

    def __init__(self, settings: JobSettings, socket: Path, board: Path, device: DeviceName) -> None:
        self.settings = settings
        self.requests = RequestBook()
        self._watches_servers = False
        self._socket, self._board, self._device = socket, board, device
        self._kind = find_kind(device.kind)
        self._absence = Absence(socket)
        self._client: Client | None = None
        self._connection: Connection | None = None
        self._boundaries: Boundaries | None = None
        self._prepared_by = os.getpid()
        self._calls_elsewhere = 0
        self._announced = self._reason = ""

    @property
    def attached(self) -> bool:
        """Whether this process has used the device."""
        return self._client is not None

    def prepare(self) -> None:
        """Have the process join at its first use of the device."""
        device_type = self._kind.prepare(self._join)
        # After the device's own handler, so it runs before the device stops; before the program's, so it runs after.
        atexit.register(self._leave)
        self._boundaries = Boundaries(self, device_type, self._works_elsewhere)
        self._boundaries.install()
        self.become(self.settings)
        os.register_at_fork(after_in_child=self._forget_after_fork)

    def become(self, settings: JobSettings) -> None:
        """Take over what the program says of the job. Requests to a job that serves are seen when they arrive."""
        self.settings = settings
        if self._boundaries is not None:
            self._boundaries.serves = settings.kind is JobKind.INFERENCE
        if settings.kind is JobKind.INFERENCE and not self._watches_servers:
            self._watches_servers = True
            watch_servers(self.requests)

    def is_not_shared(self, reason: str) -> None:
        """Say so once, on stderr and in the daemon's status."""
        if reason != self._reason:
            self._reason = reason
            complain_aside(f"job {self.settings.name} (process {os.getpid()}) is not shared: {reason}")
            self._absence.tell(self.settings.name, reason)

    # --- the first use

    def _join(self) -> None:
        agent = self._take_slot()
        try:
            profiles, program = KnownProfiles(profiles_folder()), self._program(agent)
            client = Client(agent, self.settings, lambda: KernelMeasurer(agent), self.requests, profiles.find(program))
            client.welcomed = self._welcomed
            client.measured = partial(profiles.save, program)
            connection = Connection(client, agent, self._socket)
            self._client, self._connection = client, connection
            self._leave_in_worker(agent)
            _note_failures(client)
            connection.start()
            self._absence.end()
        except BaseException as error:
            agent.release_launches()  # nobody else would
            self.is_not_shared(str(error))
            raise

    def _program(self, agent: DeviceAgent) -> str:
        return key_of_program(self.settings, agent, str(sys.modules["torch"].__version__))

    def _take_slot(self) -> DeviceAgent:
        while True:
            try:
                check_folder(self._socket.parent)
                return self._kind.attach(self._board, self.settings.name, self._device.index)
            except BoardFullError as error:
                self.is_not_shared(f"{error}; it waits until another job ends")
                sleep(_SLOT_SECONDS)
            except Exception as error:
                self.is_not_shared(str(error))
                raise RuntimeError(f"neaptide: job {self.settings.name} cannot use the device: {error}") from error

    def _welcomed(self, welcome: Welcome) -> None:
        assert self._client is not None
        self._client.settings = replace(self._client.settings, name=welcome.job)  # so it is called after a new daemon
        budget = format_bytes(welcome.budget_bytes)
        line = f"attached as {welcome.job} to {self._device}, budget {budget}, policy {welcome.policy}"
        if line != self._announced:
            complain_aside(line)
        self._announced = line

    # --- the end

    def _leave_in_worker(self, agent: DeviceAgent) -> None:
        if os.getpid() != self._prepared_by:
            # A child that multiprocessing has forked ends without the handlers of atexit.
            multiprocessing.util.Finalize(None, agent.close, exitpriority=0)
            multiprocessing.util.Finalize(None, self._leave, exitpriority=1)

    def _leave(self) -> None:
        if self._boundaries is not None:
            self._boundaries.remove()
        if self._connection is not None:
            self._connection.leave()

    def _forget_after_fork(self) -> None:
        self._absence.end()
        if self._connection is not None:
            if self._boundaries is not None:
                self._boundaries.remove()
            self._connection.forget_after_fork()

    # --- iterations (a Listener)

    def begin(self, serving: bool, trained: bool) -> None:
        if self._client is not None:
            self._client.begin(serving, trained)

    def end_forward(self) -> None:
        if self._client is not None:
            self._client.end_forward()

    def end(self) -> None:
        if self._client is not None:
            self._client.end()

    def change(self) -> None:
        if self._client is not None:
            self._client.change()

    def _works_elsewhere(self, device_type: str, steps: bool) -> None:
        """A module was called, or an optimizer stepped, that is not on the device."""
        if self.attached or device_type != "cpu" or self._calls_elsewhere > _CALLS_ON_THE_CPU:
            return
        if not steps and multiprocessing.process.parent_process() is not None:
            return  # a worker may well prepare samples with a module
        self._calls_elsewhere += _CALLS_ON_THE_CPU + 1 if steps else 1
        if self._calls_elsewhere >= _CALLS_ON_THE_CPU:
            self._calls_elsewhere = _CALLS_ON_THE_CPU + 1
            self.is_not_shared("its torch works on the CPU; it is shared from its first use of the device on")


def _note_failures(client: Client) -> None:
    """Report the error that ends the program to the daemon; what Python prints does not change."""
    before = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        text = " ".join(str(error).split())
        client.fail(f"{kind.__name__}: {text}" if text else kind.__name__)
        before(kind, error, traceback)

    sys.excepthook = note
