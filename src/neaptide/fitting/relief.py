"""While a model is profiled, tensors that only autograd holds wait in host memory.

So profiling needs little more memory than a plan does. Nothing is known yet of the iteration, so each tensor is copied
out as soon as only autograd holds it, the program's stream waits for the copy, and the tensor is copied back when
autograd asks for it. This is slow, but only during profiling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary, ref

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from neaptide.capture.timing.device_times import Aside
from neaptide.planning.executor.compile.recording import TensorView
from neaptide.planning.executor.run.copying import Copier
from neaptide.planning.executor.run.record import AWAY, Record
from neaptide.planning.executor.run.saved_storages import is_only_saved, may_be_moved


class Relief:
    """Sends records to the host."""

    def __init__(self, device: torch.device) -> None:
        self.copier = Copier(device)
        self.aside = Aside(self.copier.stream_ids)

    def send(self, record: Record, leaves: Callable[[Record], None]) -> None:
        """Copy the record's storage to the host and free it; `leaves` is called before."""
        if record.holder is not None:
            leaves(record)
            record.send(AWAY)
            record.release(AWAY)

    def there(self, record: Record) -> Tensor:
        """The record's storage on the device, copied back if necessary."""
        if record.holder is None:
            record.receive()
        assert record.holder is not None
        return record.holder


class _Held:
    """Autograd's handle of a saved tensor whose storage may leave the device."""

    __slots__ = ("record", "view")

    def __init__(self, record: Record, view: TensorView) -> None:
        self.record, self.view = record, view


class Relieved:
    """A context for timed iterations: their saved tensors wait in host memory, as in recorded ones."""

    def __init__(self, device: torch.device, relief: Relief, persistent: Iterable[Tensor]) -> None:
        self._device_type = device.type
        self._relief = relief
        self._stay = {tensor.untyped_storage()._cdata for tensor in persistent}
        self._records: WeakValueDictionary[int, Record] = WeakValueDictionary()  # by the address of the storage
        self._held: dict[int, ref[Record]] = {}  # by the address: others than autograd may hold these
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)
        self.asked = False  # autograd has asked for something since `begin`

    def __enter__(self) -> Self:
        self._hooks.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hooks.__exit__(kind, error, trace)

    def begin(self) -> None:
        self.asked = False
        self._held.clear()

    def _pack(self, tensor: Tensor) -> Tensor | _Held:
        with self._relief.aside.span():
            return self._held_of(tensor)

    def _held_of(self, tensor: Tensor) -> Tensor | _Held:
        address = tensor.untyped_storage()._cdata if may_be_moved(tensor, self._device_type) else None
        if address is None or address in self._stay:
            return tensor.detach()
        record = self._records.get(address)
        if record is None:
            record = Record(0, tensor, self._relief.copier)
            self._records[address] = record
            self._held[address] = ref(record)
        self._relieve()
        return _Held(record, TensorView.of(tensor))

    def _relieve(self) -> None:
        for address, found in list(self._held.items()):
            record = found()
            if record is None:
                del self._held[address]
            elif is_only_saved(address):
                del self._held[address]
                self._relief.send(record, self._leaves)

    def _leaves(self, record: Record) -> None:
        assert record.holder is not None
        del self._records[record.holder.untyped_storage()._cdata]  # another storage may get the address

    def _unpack(self, held: Tensor | _Held) -> Tensor:
        self.asked = True
        if isinstance(held, Tensor):
            return held
        with self._relief.aside.span():
            return held.view.on(self._relief.there(held.record))
