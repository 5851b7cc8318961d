"""SuperNeurons' unified tensor pool with its tensor cache, at run time: the device caches what autograd saves.

A saved tensor stays on the device while there is room. When memory is short, the least recently used tensor that only
autograd holds goes to host memory; it returns when autograd asks for it, and the one saved before it is fetched ahead.
So there is no traffic while memory suffices. Nothing is recorded or planned beforehand: the limit may change at any
time, and any saved tensor may leave, not only results of convolutions as in the paper.

The cache acts in autograd's hooks; each call of a hook is a moment. It must know how much the program takes between two
moments. It learns that in the first two iterations, in which every tensor leaves as soon as it can.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary, ref

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from neaptide.planning.executor.compile.recording import TensorView
from neaptide.planning.executor.run.copying import Copier
from neaptide.planning.executor.run.record import AWAY, Record
from neaptide.planning.executor.run.rises import Rises
from neaptide.planning.executor.run.saved_storages import checked, is_only_saved, may_be_moved

_STAYS = -1  # the number of a record that never leaves


class _Handle:
    """What autograd holds instead of a tensor."""

    __slots__ = ("record", "version", "view")

    def __init__(self, record: Record, tensor: Tensor) -> None:
        self.record, self.view, self.version = record, TensorView.of(tensor), tensor._version


class TensorCache:
    """A context around training. Call `begin` before every iteration; `limit_bytes` may be set at any time."""

    def __init__(self, device: torch.device, limit_bytes: int, persistent: Iterable[Tensor] = ()) -> None:
        self.limit_bytes = limit_bytes
        self.copier = Copier(device)
        self.evictions = 0
        self.asked = False  # autograd has asked for a tensor in this iteration
        self._device_type = device.type
        self._stay = {tensor.untyped_storage()._cdata for tensor in persistent}
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)
        self._rises = Rises(device)
        self._by_address: WeakValueDictionary[int, Record] = WeakValueDictionary()
        self._present: OrderedDict[int, ref[Record]] = OrderedDict()  # by number; the least recently used first
        self._absent: WeakValueDictionary[int, Record] = WeakValueDictionary()  # by number
        self._evicted: set[int] = set()  # numbers of the storages that left in this iteration
        self._early: set[int] = set()  # of those that left in the last one: now their copies begin early

    def __enter__(self) -> Self:
        self._hooks.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hooks.__exit__(kind, error, trace)

    @property
    def learning(self) -> bool:
        """Whether every tensor leaves as soon as it can, because this is one of the first iterations."""
        return self._rises.learning

    def begin(self) -> int:
        """Begin an iteration; return the peak of the last one."""
        self.asked = False
        self._early, self._evicted = self._evicted, set()
        self._present.clear()
        self._absent.clear()
        self._by_address.clear()  # a storage that is still saved cannot be saved again under its old number
        return self._rises.begin()

    # Called by autograd

    def _pack(self, tensor: Tensor) -> _Handle:
        address = tensor.untyped_storage()._cdata if may_be_moved(tensor, self._device_type) else None
        if address is None or address in self._stay:
            return _Handle(Record(_STAYS, tensor, self.copier), tensor)
        record = self._by_address.get(address)
        if record is None:
            record = Record(self._rises.number(tensor.untyped_storage().nbytes()), tensor, self.copier)
            self._by_address[address] = record
        with self._rises.moment("saved", record.tensor):
            self._use(record)
            self._make_room(0, but=record)
        return _Handle(record, tensor)

    def _unpack(self, handle: _Handle) -> Tensor:
        self.asked = True
        record = handle.record
        if record.tensor == _STAYS:
            assert record.holder is not None
            return checked(handle.view.on(record.holder), handle.version, record.current_version())
        with self._rises.moment("asked", record.tensor), torch.no_grad():
            self._use(record)
            self._make_room(record.away_bytes if record.holder is None else 0, but=record)
            if record.holder is None:
                record.receive()
                self._absent.pop(record.tensor, None)
            else:
                record.stay()
            self._fetch_ahead(record.tensor)
            assert record.holder is not None
            return checked(handle.view.on(record.holder), handle.version, record.current_version())

    # What is done

    def _use(self, record: Record) -> None:
        self._present[record.tensor] = ref(record)
        self._present.move_to_end(record.tensor)

    def _make_room(self, wanted_bytes: int, but: Record) -> None:
        """Evict until `wanted_bytes` and what the program takes before the next moment fit, but not that record."""
        for number, found in [] if self._rises.fit(wanted_bytes, self.limit_bytes) else list(self._present.items()):
            record = found()
            if record is None or record.holder is None:
                self._present.pop(number)
            elif record is not but and is_only_saved(address := record.holder.untyped_storage()._cdata):
                self._evict(record, address)
                if self._rises.fit(wanted_bytes, self.limit_bytes):
                    return
        if self._rises.fit(wanted_bytes, self.limit_bytes):
            self._send_early(but)
            return
        for record in list(self._absent.values()):
            if record is not but:
                record.unfetch()

    def _send_early(self, but: Record) -> None:
        """Begin the copies of storages that left in the last iteration, before their memory is needed."""
        for number in list(self._early):
            found = self._present.get(number)
            record = None if found is None else found()
            if record is None or record is but or record.holder is None:
                continue
            if is_only_saved(record.holder.untyped_storage()._cdata):
                record.send(AWAY)
                self._early.discard(number)

    def _evict(self, record: Record, address: int) -> None:
        record.send(AWAY)
        record.release(AWAY)
        self._early.discard(record.tensor)
        self._by_address.pop(address, None)  # another storage may get the address
        self._present.pop(record.tensor)
        self._absent[record.tensor] = record
        self._evicted.add(record.tensor)
        self.evictions += 1

    def _fetch_ahead(self, number: int) -> None:
        """Begin the copy in of the storage that autograd will probably ask for next, if there is room for it."""
        ahead = max((other for other in self._absent if other < number), default=None)
        record = None if ahead is None else self._absent.get(ahead)
        if record is not None and self._rises.fit(record.away_bytes, self.limit_bytes):
            record.fetch(AWAY)
