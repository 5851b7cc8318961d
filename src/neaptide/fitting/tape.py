"""A recorder that also keeps what the executor needs: the calls of ops, and which tensors autograd saved, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn

from neaptide.capture.recording.recorder import Recorder
from neaptide.capture.session import Captured
from neaptide.fitting.relief import Relief
from neaptide.planning.executor.compile.recording import Call, Recording, Reference, Save, TensorView
from neaptide.planning.executor.run.record import Record
from neaptide.planning.executor.run.saved_storages import is_only_saved, may_be_moved


@dataclass(slots=True)
class _Saved:
    storage: int  # the log's number; -1 if it is not on the device
    view: TensorView
    moment: int
    uses: list[int] = field(default_factory=list)
    gone: int | None = None


@dataclass(slots=True)
class _Iteration:
    """What was recorded of one iteration, with the log's numbers for storages and kernels."""

    start: int
    calls: dict[int, Call] = field(default_factory=dict)
    saves: list[_Saved] = field(default_factory=list)
    kernel_of_moment: list[int] = field(default_factory=list)
    only_saved_from: dict[int, int] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)  # storages that others than autograd may hold, and their address


@dataclass(slots=True)
class _Ticket:
    """Autograd's handle of a saved tensor while the iteration is recorded."""

    iteration: _Iteration
    position: int
    saved: Tensor | Record  # a record if its storage may leave the device

    def __del__(self) -> None:
        self.iteration.saves[self.position].gone = len(self.iteration.kernel_of_moment)


class Tape(Recorder):
    """Call `begin` before each iteration."""

    def __init__(self, relief: Relief, device: torch.device, launched: Callable[[], int]) -> None:
        super().__init__(device, launched)
        self._relief = relief
        self._records: dict[int, ref[Record]] = {}  # of storages that autograd saved, by the log's numbers
        self._away: set[int] = set()  # those that are in host memory
        self._iterations: list[_Iteration] = []
        self._persistent: dict[int, str] = {}
        self.asked = False  # autograd has asked for something since `begin`

    def begin(self, model: nn.Module) -> None:
        self._iterations.append(_Iteration(self._clock))
        self.asked = False
        for name, tensor in persistent_tensors(model).items():
            number = self._storage(tensor)
            if number is not None:
                self._persistent.setdefault(number, name)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._quiet or not self._iterations or self._in_optimizer or torch._C._current_graph_task_id() != -1:
            return super().__torch_dispatch__(func, types, args, kwargs)
        kernel = self._clock
        arguments, keywords = self._described(tuple(args)), self._described(dict(kwargs or {}))
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if self._clock > kernel:
            self._iterations[-1].calls[kernel] = Call(func, arguments, keywords, tuple(self._results(out)))
        return out

    def _described(self, value: Any) -> Any:
        """The value with each tensor replaced by a reference with the log's number."""
        if isinstance(value, Tensor):
            return self._reference(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._described(item) for item in value)
        if isinstance(value, dict):
            return {key: self._described(item) for key, item in value.items()}
        return value

    def _reference(self, tensor: Tensor) -> Reference:
        plain = tensor.layout == torch.strided and not tensor.is_conj() and not tensor.is_neg()
        number = self._storage(tensor) if plain else None
        empty = TensorView(tensor.dtype, tensor.shape, (), 0)
        return Reference(-1 if number is None else number, TensorView.of(tensor) if plain else empty, tensor.device)

    def _results(self, out: Any) -> Iterable[Reference | None]:
        if isinstance(out, (list, tuple)):
            for item in out:
                yield from self._results(item)
        else:
            yield self._reference(out) if isinstance(out, Tensor) else None

    # What autograd saves

    def _moment(self, iteration: _Iteration) -> int:
        """Begin a moment, and copy out the storages that only autograd holds by now."""
        moment = len(iteration.kernel_of_moment)
        iteration.kernel_of_moment.append(self._clock)
        for number, address in list(iteration.held.items()):
            record = self._records[number]()
            if record is None:
                del iteration.held[number]
            elif is_only_saved(address):
                iteration.only_saved_from[number] = moment
                del iteration.held[number]
                with self._silence():
                    self._relief.send(record, self._leaves)
        return moment

    def _pack(self, tensor: Tensor) -> Any:
        number = self._storage(tensor)
        saved = super()._pack(tensor)
        if not self._iterations:
            return saved
        iteration = self._iterations[-1]
        position = len(iteration.saves)
        iteration.saves.append(_Saved(-1 if number is None else number, TensorView.of(tensor), self._moment(iteration)))
        if number is None or not may_be_moved(tensor, self._device_type):
            return _Ticket(iteration, position, saved)
        return _Ticket(iteration, position, self._record(number, saved, iteration))

    def _record(self, number: int, saved: Tensor, iteration: _Iteration) -> Record:
        known = self._records.get(number)
        record = None if known is None else known()
        if record is None:
            with self._silence():
                record = Record(number, saved, self._relief.copier)
            self._records[number] = ref(record, lambda _: self._lost(number))
            if number not in iteration.only_saved_from:
                iteration.held[number] = saved.untyped_storage()._cdata
        return record

    def _leaves(self, record: Record) -> None:
        assert record.holder is not None
        self._stop_watching(record.holder)
        self._away.add(record.tensor)

    def _lost(self, number: int) -> None:
        """Autograd has dropped the record of a storage."""
        if number in self._away:
            self._away.discard(number)
            self.log.storages[number].died = self._clock - 1

    def _unpack(self, packed: Any) -> Tensor:
        if not isinstance(packed, _Ticket):
            return super()._unpack(packed)
        self.asked = True
        iteration = packed.iteration
        saved = iteration.saves[packed.position]
        saved.uses.append(self._moment(iteration))
        iteration.held.pop(saved.storage, None)
        if isinstance(packed.saved, Tensor):
            return packed.saved
        record = packed.saved
        with self._silence():
            holder = self._relief.there(record)
            if record.tensor in self._away:
                self._away.discard(record.tensor)
                self._watch(record.tensor, holder.untyped_storage())  # it is back, in another storage
            return saved.view.on(holder)

    # What is made of it

    def recording(self, captured: Captured) -> Recording:
        """The recorded iteration of the trace, with the trace's numbers."""
        rows, start, end = captured.tensor_of_storage, captured.start, captured.end
        chosen = next(iteration for iteration in self._iterations if iteration.start == start)
        others = [other for other in self._iterations if other is not chosen and len(other.calls) == len(chosen.calls)]
        return Recording(
            calls={
                kernel - start: _renumbered(call, rows, any(_differs(call, kernel - start, other) for other in others))
                for kernel, call in chosen.calls.items()
                if start <= kernel < end
            },
            saves=tuple(
                Save(rows.get(saved.storage, -1), saved.view, saved.moment, tuple(saved.uses), saved.gone)
                for saved in chosen.saves
            ),
            op_of_moment=tuple(min(kernel, end) - start for kernel in chosen.kernel_of_moment),
            only_saved_from={
                rows[number]: moment for number, moment in chosen.only_saved_from.items() if number in rows
            },
            persistent={rows[number]: name for number, name in self._persistent.items() if number in rows},
        )


def persistent_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The model's parameters and buffers by name."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _renumbered(call: Call, rows: Mapping[int, int], changes: bool) -> Call:
    def renumber(value: Any) -> Any:
        if isinstance(value, Reference):
            return Reference(rows.get(value.tensor, -1), value.view, value.device)
        if isinstance(value, (list, tuple)):
            return type(value)(renumber(item) for item in value)
        if isinstance(value, dict):
            return {key: renumber(item) for key, item in value.items()}
        return value

    return Call(
        call.function, renumber(call.arguments), renumber(call.keywords), renumber(call.results), changes=changes
    )


def _differs(call: Call, offset: int, other: _Iteration) -> bool:
    """Whether another iteration called this op with other numbers, or made another op in its place."""
    again = other.calls.get(other.start + offset)
    if again is None or again.function is not call.function:
        return True
    return _plain(call.arguments) != _plain(again.arguments) or _plain(call.keywords) != _plain(again.keywords)


def _plain(value: Any) -> Any:
    """Arguments without the identity of their tensors."""
    if isinstance(value, Reference):
        return value.view
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
