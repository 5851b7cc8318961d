"""Copies of storages to pinned host memory and back, on two side streams.

The program's stream waits for a copy out before the storage that it reads is released, and for a copy in before the
storage that it fills is used. So only the order of launches decides when memory is free, not the progress of the
device: a slow copy costs time, never memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from neaptide.planning.executor.compile.recording import TensorView
from neaptide.planning.executor.run.host_pool import Block, HostPool


@dataclass(slots=True)
class HostCopy:
    """The copy of a storage on the host, from its beginning to its return."""

    block: Block
    bytes: int
    sent: torch.Event
    arriving: Tensor | None = None
    arrived: torch.Event | None = None


class Copier:
    """Copies storages out and in, on one stream each, through a pool of host memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.pool = HostPool()
        self._out = torch.Stream(device=device)
        self._in = torch.Stream(device=device)
        self.sent_bytes = 0
        self.fetched_bytes = 0

    @property
    def stream_ids(self) -> tuple[int, int]:
        return self._out.stream_id, self._in.stream_id

    def _now(self) -> torch.Event:
        return torch.accelerator.current_stream(self._device).record_event()

    def send(self, holder: Tensor) -> HostCopy:
        """Begin the copy of a storage to the host. The caller holds the storage until `await_sent`."""
        size = holder.untyped_storage().nbytes()
        block = self.pool.take(size)
        self._out.wait_event(self._now())
        for event in block.free_after:
            self._out.wait_event(event)
        with torch.no_grad(), self._out:
            self.pool.bytes_of(block, size).copy_(_flat(holder, size), non_blocking=True)
        self.sent_bytes += size
        return HostCopy(block, size, self._out.record_event())

    def await_sent(self, copy: HostCopy) -> None:
        """Make later launches wait for the copy out, so that the storage can be released."""
        torch.accelerator.current_stream(self._device).wait_event(copy.sent)

    def fetch(self, copy: HostCopy) -> None:
        """Begin the copy in, into memory of the current stream."""
        if copy.arriving is not None:
            return
        with torch.no_grad():
            copy.arriving = torch.empty(copy.bytes, dtype=torch.uint8, device=self._device)
            self._in.wait_event(self._now())
            self._in.wait_event(copy.sent)
            with self._in:
                copy.arriving.copy_(self.pool.bytes_of(copy.block, copy.bytes), non_blocking=True)
        copy.arrived = self._in.record_event()
        self.fetched_bytes += copy.bytes

    def unfetch(self, copy: HostCopy) -> None:
        """Release the memory of a copy in; later launches, which may get that memory, wait for the copy's end."""
        if copy.arrived is not None:
            torch.accelerator.current_stream(self._device).wait_event(copy.arrived)
            copy.arriving = copy.arrived = None

    def receive(self, copy: HostCopy) -> Tensor:
        """The storage on the device again; later launches wait for its copy in."""
        self.fetch(copy)
        assert copy.arriving is not None
        assert copy.arrived is not None
        torch.accelerator.current_stream(self._device).wait_event(copy.arrived)
        self.pool.give(copy.block, copy.arrived)
        return copy.arriving

    def abandon(self, copy: HostCopy) -> None:
        """Give up a copy whose storage is not needed any more."""
        last = copy.arrived or copy.sent
        torch.accelerator.current_stream(self._device).wait_event(last)
        self.pool.give(copy.block, last)


def _flat(holder: Tensor, size: int) -> Tensor:
    return TensorView(torch.uint8, torch.Size((size,)), (1,), 0).on(holder)
