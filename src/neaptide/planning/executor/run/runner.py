"""Carries out a program on a running model, in hooks that autograd calls when it saves a tensor or asks for one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from sys import getrefcount
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from neaptide.planning.executor.compile.program import Program, Step, Verb
from neaptide.planning.executor.run.copying import Copier
from neaptide.planning.executor.run.probes import Probes, is_probed
from neaptide.planning.executor.run.record import Record
from neaptide.planning.executor.run.rerunning import rerun
from neaptide.planning.executor.run.saved_storages import checked
from neaptide.planning.plan import Return


class KeptHandle:
    """What autograd holds instead of a tensor that the program does not touch."""

    __slots__ = ("asked", "iteration", "position", "tensor", "version")

    def __init__(self, iteration: Iteration, position: int, tensor: Tensor) -> None:
        self.iteration, self.position = iteration, position
        self.tensor = tensor.detach()
        self.version = tensor._version
        self.asked = 0


class PlannedHandle:
    """What autograd holds instead of a tensor that has a record."""

    __slots__ = ("asked", "iteration", "position", "record", "version")

    def __init__(self, iteration: Iteration, position: int, record: Record, version: int) -> None:
        self.iteration, self.position, self.record, self.version = iteration, position, record, version
        self.asked = 0


class Iteration:
    """The records of one iteration, by the trace's numbers of their tensors; it keeps none alive."""

    def __init__(self, program: Program, number: int) -> None:
        self.program = program
        self.number = number
        self.probes = Probes(len(program.recorded)) if is_probed(number) else None
        self.saved = 0
        self.asked = False  # whether autograd has asked for a tensor
        self.difference = ""  # how it differs from the recorded iteration
        self.records: WeakValueDictionary[int, Record] = WeakValueDictionary()


class Runner:
    """A context in which the program is carried out. Call `begin` before every iteration."""

    def __init__(self, program: Program, device: torch.device, persistent: Mapping[str, Tensor]) -> None:
        self.program = program
        self.copier = Copier(device)
        self.reruns = 0
        self._persistent = {tensor: persistent[name] for tensor, name in program.persistent.items()}
        self._iteration = Iteration(program, 0)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(saved_tensors_hooks(self._pack, self._unpack))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def asked(self) -> bool:
        """Whether the iteration's backward pass has begun."""
        return self._iteration.asked

    @property
    def abandoned(self) -> bool:
        """Whether a forward pass ran and autograd has already released everything that it saved."""
        # Every handle refers to its iteration. Without handles, only this object and the call below do.
        return self._iteration.saved > 0 and getrefcount(self._iteration) <= 2

    def begin(self) -> str:
        """Begin an iteration; return how the previous one differed from the recorded one, empty if it did not."""
        before = self._iteration
        self._iteration = Iteration(self.program, before.number + (before.saved > 0))
        if before.probes is not None:
            before.probes.check()
        if not before.difference and 0 < before.saved < len(self.program.saves):
            return f"{before.saved} tensors were saved, not {len(self.program.saves)}"
        return before.difference

    # Called by autograd

    def _pack(self, tensor: Tensor) -> KeptHandle | PlannedHandle:
        iteration, program = self._iteration, self.program
        position = iteration.saved
        iteration.saved = position + 1
        if iteration.difference or position >= len(program.saves):
            iteration.difference = iteration.difference or f"more than {len(program.saves)} tensors were saved"
            return KeptHandle(iteration, position, tensor)
        save = program.saves[position]
        if not save.view.matches(tensor):
            iteration.difference = f"saved tensor {position} is {list(tensor.shape)}, not {list(save.view.size)}"
            return KeptHandle(iteration, position, tensor)
        if save.moment in program.steps:
            self._do(program.steps[save.moment], iteration)
        number = save.tensor
        if number not in program.recorded:
            return KeptHandle(iteration, position, tensor)
        record = iteration.records.get(number)
        if record is None:
            record = Record(number, tensor, self.copier)
            iteration.records[number] = record
        return PlannedHandle(iteration, position, record, tensor._version)

    def _unpack(self, handle: KeptHandle | PlannedHandle) -> Tensor:
        iteration, program = handle.iteration, handle.iteration.program
        iteration.asked = True
        if isinstance(handle, KeptHandle) and (iteration.difference or handle.position >= len(program.saves)):
            return checked(handle.tensor, handle.version, handle.tensor._version)
        save = program.saves[handle.position]
        if handle.asked < len(save.uses):
            steps = program.steps.get(save.uses[handle.asked], ())
            handle.asked += 1
            if steps:
                self._do(steps, iteration)
        if isinstance(handle, KeptHandle):
            return checked(handle.tensor, handle.version, handle.tensor._version)
        with torch.no_grad():
            holder = self.holder(handle.record, iteration)
            return checked(save.view.on(holder), handle.version, handle.record.current_version())

    # What is done

    def _do(self, steps: tuple[Step, ...], iteration: Iteration) -> None:
        for step in steps:
            record = iteration.records.get(step.gap.tensor)
            if record is None:
                continue
            with torch.no_grad():
                if step.verb is Verb.DROP:
                    if iteration.probes is not None and record.holder is not None:
                        iteration.probes.set_aside(step.gap.tensor, record.holder)
                    record.drop(step.gap)
                elif step.verb is Verb.ENCODE:
                    record.encode(step.gap, self._type_of(step.gap.tensor))
                elif step.verb is Verb.SEND:
                    record.send(step.gap)
                elif step.verb is Verb.RELEASE:
                    record.release(step.gap)
                else:
                    record.fetch(step.gap)

    def _type_of(self, tensor: int) -> torch.dtype:
        return next(save.view.dtype for save in self.program.saves if save.tensor == tensor)

    def holder(self, record: Record, iteration: Iteration) -> Tensor:
        """The record's storage, brought back if it is absent."""
        if record.holder is not None:
            record.stay()
            return record.holder
        gap = record.gap
        assert gap is not None  # the storage is on the host, encoded or dropped
        if gap.back is Return.SWAP:
            record.receive()
        elif gap.back is Return.DECODE:
            record.decode()
        else:
            self._rerun(record, iteration)
        assert record.holder is not None
        return record.holder

    def _rerun(self, record: Record, iteration: Iteration) -> None:
        assert record.gap is not None
        before = record.gap.before
        chain = iteration.program.chains[record.tensor, before]
        made = rerun(chain, record.tensor, lambda tensor: self._find(tensor, iteration), iteration.program.bytes_of)
        self.reruns += len(chain.reruns)
        for tensor in chain.members:
            other = iteration.records.get(tensor)
            if other is None or other.holder is not None or other.gap is None or other.gap.before != before:
                continue
            if tensor in chain.onward and other is not record:
                other.gap = chain.onward[tensor]
            elif tensor in made:
                other.restore(made[tensor])
                if iteration.probes is not None:
                    iteration.probes.compare(tensor, made[tensor])

    def _find(self, tensor: int, iteration: Iteration) -> Tensor | None:
        """Some view of a storage that a rerun reads."""
        record = iteration.records.get(tensor)
        if record is not None:
            return self.holder(record, iteration)
        return self._persistent.get(tensor)
