"""The recorder: a dispatch mode and a few hooks that log what a training or inference loop does.

It writes one continuous log. `cutting` decides afterwards where an iteration begins and ends, because only then is it
known which memory a step leaves behind for the next one to free.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from neaptide.capture.recording.log import Kernel, Log, Storage
from neaptide.capture.recording.operators import Facts, argument_of, facts_of, is_host_arithmetic, layout_of, tensors_in
from neaptide.capture.timing.cost import cost_of
from neaptide.core.traces.trace import Kind, Phase

aten = torch.ops.aten

_QUERIES = {"prim", "profiler"}


class Recorder(TorchDispatchMode):
    """Logs every op on `device` while it is entered. It keeps no tensor alive and changes no result.

    It must also hear of modules and optimizers, through `hooks.watching`.
    """

    def __init__(self, device: torch.device, launched: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        self._launched = launched  # the device's own count of launched kernels
        self.log = Log()
        self._device_type = device.type
        self._clock = 0  # kernels launched
        self._alive: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._facts: dict[Any, Facts] = {}
        self._modules: list[str] = []
        self._linear_depth = 0  # depth of the running linear layer among the modules
        self._path = ""  # of the running module
        self._names: dict[int, str] = {}  # of modules and parameters
        self._main_root: int | None = None
        self._module_of_node: dict[int, str] = {}
        self._in_optimizer = False
        self._quiet = False
        self._active = False
        self._stack = ExitStack()

    @property
    def clock(self) -> int:
        """The number of kernels launched so far."""
        return self._clock

    def _now(self) -> float:
        if self._device_type not in ("cpu", "meta"):
            torch.accelerator.synchronize()
        return perf_counter()

    def __enter__(self) -> Self:
        self._stack.enter_context(saved_tensors_hooks(self._pack, self._unpack))
        super().__enter__()
        self._active = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._active = False
        super().__exit__(kind, error, trace)
        self._stack.close()
        self._alive.clear()  # storages that live on are no longer watched

    # Ops

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._quiet or func.namespace in _QUERIES:
            return func(*args, **kwargs)
        facts = self._facts.get(func) or self._learn(func)
        ins = [*tensors_in(args), *tensors_in(kwargs.values())]
        phase = self._phase(ins)
        self._path = path = self._module(phase)
        launches = facts.launches and not (self._in_optimizer and is_host_arithmetic(ins))
        touched = [self._storage(tensor) for tensor in ins]
        kernel = self._clock
        self._clock += launches
        try:
            started = self._now()
            out = func(*args, **kwargs)
            seconds = self._now() - started
        except BaseException:
            self._clock -= launches
            raise
        outs = list(tensors_in((out,)))
        if not any(tensor.device.type == self._device_type for tensor in (*ins, *outs)):
            self._clock -= launches
            return out
        if not launches:
            for tensor in outs:
                number = self._storage(tensor)
                if facts.view and number is not None and func.overloadpacket is not aten.detach:
                    self.log.storages[number].mirrored |= self._is_whole(tensor, number)
            if not facts.view:
                self._note_call(func._schema.name, self._clock)
            self._name_gradient(phase, outs)
            return out
        written = [tensor for key in facts.mutated for tensor in tensors_in((argument_of(args, kwargs, key),))] or outs
        writes = dict.fromkeys(i for tensor in written if (i := self._storage(tensor, kernel)) is not None)
        reads = dict.fromkeys(i for i in touched if i is not None)
        self._name_gradient(phase, outs)
        for number in writes:
            storage = self.log.storages[number]
            storage.phase = phase if storage.phase is None else storage.phase
        self._note_call(func._schema.name, kernel)
        self.log.kernels.append(
            Kernel(
                name=func._schema.name,
                module=path,
                phase=phase,
                cost=cost_of(func, args, kwargs, ins, outs, out),
                reads=tuple(reads),
                writes=tuple(writes),
                shapes=tuple(tensor.shape for tensor in ins),
                seconds=seconds,
                first=touched[0] if touched else None,
                first_is_whole=bool(touched) and self._is_whole(ins[0], touched[0]),
                in_linear=self._linear_depth == len(self._modules) > 0,
            )
        )
        return out

    def _note_call(self, name: str, kernel: int) -> None:
        self.log.calls.append((name, kernel))
        self.log.launched.append(self._launched())

    def _learn(self, func: Any) -> Facts:
        self._facts[func] = facts = facts_of(func)
        return facts

    def _phase(self, ins: list[Tensor]) -> Phase:
        if self._in_optimizer:
            return Phase.OPTIMIZER
        if torch._C._current_graph_task_id() != -1:
            return Phase.BACKWARD
        training = torch.is_grad_enabled()
        # Outside modules, these are clipping, zeroing and, without gradients, averaging of weights.
        if not self._modules and ins and (all if training else any)(map(self._is_optimizers, ins)):
            return Phase.OPTIMIZER
        return Phase.FORWARD if training else Phase.INFERENCE

    def _is_optimizers(self, tensor: Tensor) -> bool:
        number = self._storage(tensor)
        storage = None if number is None else self.log.storages[number]
        kinds = (Kind.GRADIENT,) if torch.is_grad_enabled() else (Kind.GRADIENT, Kind.PARAMETER, Kind.OPTIMIZER)
        return storage is not None and (storage.kind in kinds or storage.phase is Phase.OPTIMIZER)

    def _module(self, phase: Phase) -> str:
        """The path of the running module; a backward op belongs to the module whose forward made its node."""
        if phase is Phase.BACKWARD and not self._modules:
            node = torch._C._current_autograd_node()
            return self._module_of_node.get(node._sequence_nr(), "") if node is not None else ""
        path = self._modules[-1] if self._modules else ""
        if torch.is_grad_enabled():
            self._module_of_node[torch.autograd._get_sequence_nr() - 1] = path  # type: ignore[attr-defined]
        return path

    # Storages

    def _storage(self, tensor: Tensor, kernel: int | None = None) -> int | None:
        """The log's number of a tensor's storage, which is added if it is new; None if it is not on the device."""
        if tensor.device.type != self._device_type or tensor.layout != torch.strided:
            return None
        storage = tensor.untyped_storage()
        key = storage._cdata
        known = self._alive.get(key)
        if known is not None:
            return known[0]
        size = storage.nbytes()
        if size == 0:
            return None
        number = len(self.log.storages)
        born = self._clock if kernel is None else kernel
        self.log.storages.append(Storage(size, layout_of(tensor), born, label=self._path, strides=tensor.stride()))
        self._watch(number, storage)
        return number

    def _watch(self, number: int, storage: torch.UntypedStorage) -> None:
        key = storage._cdata

        def died(_: object) -> None:
            entry = self._alive.get(key)
            if entry is not None and entry[0] == number:
                del self._alive[key]
                self.log.storages[number].died = self._clock - 1

        self._alive[key] = (number, weakref.ref(storage, died))

    def _stop_watching(self, holder: Tensor) -> None:
        """Stop watching a storage that leaves the device; in the log it stays alive."""
        self._alive.pop(holder.untyped_storage()._cdata, None)

    @contextmanager
    def _silence(self) -> Iterator[None]:
        """Do not log the ops inside: they are not the program's."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def _is_whole(self, tensor: Tensor, number: int | None) -> bool:
        if number is None:
            return False
        storage = self.log.storages[number]
        return not storage.mirrored and storage.layout == layout_of(tensor) and storage.strides == tensor.stride()

    def _kind(self, tensor: Tensor) -> Kind | None:
        number = self._storage(tensor)
        return None if number is None else self.log.storages[number].kind

    def _name(self, tensor: Tensor | None, kind: Kind, label: str) -> None:
        number = None if tensor is None else self._storage(tensor)
        if number is not None:
            storage = self.log.storages[number]
            storage.kind, storage.label = kind, label

    def _name_gradient(self, phase: Phase, outs: list[Tensor]) -> None:
        """A tensor that the engine puts into a parameter's `grad` is a gradient from then on."""
        node = torch._C._current_autograd_node() if phase is Phase.BACKWARD else None
        parameter = getattr(node, "variable", None)  # only the node that accumulates has one
        for tensor in outs if parameter is not None else ():
            self._name(tensor, Kind.GRADIENT, self._names.get(id(parameter), ""))

    def _pack(self, tensor: Tensor) -> Any:
        number = self._storage(tensor)
        if number is not None:
            self.log.storages[number].saved = True
        with self._silence():
            return tensor.detach()  # the tensor itself and its node would hold each other

    def _unpack(self, packed: Any) -> Tensor:
        tensor: Tensor = packed
        return tensor

    # Modules and optimizers

    def enter_module(self, module: nn.Module, args: Any) -> None:
        self._in_optimizer = False  # a step that calls the model (LBFGS) has not begun its update
        if self._active:
            if not self._modules:
                self._enter_root(module, args)
            self._modules.append(self._names.get(id(module), type(module).__name__))
            if isinstance(module, nn.Linear):
                self._linear_depth = len(self._modules)

    def _enter_root(self, module: nn.Module, args: Any) -> None:
        self.log.root_starts.append(self._clock)
        if self._main_root is None and next(module.parameters(), None) is not None:
            self._main_root = id(module)
        prefix = "" if id(module) == self._main_root else type(module).__name__
        for name, child in module.named_modules():
            self._names[id(child)] = ".".join(part for part in (prefix, name) if part)
        for name, parameter in module.named_parameters():
            self._names[id(parameter)] = label = ".".join(part for part in (prefix, name) if part)
            self._name(parameter, Kind.PARAMETER, label)
        for name, buffer in module.named_buffers():
            self._name(buffer, Kind.BUFFER, name)
        for tensor in tensors_in(args):
            if self._kind(tensor) is None and not tensor.requires_grad:
                self._name(tensor, Kind.INPUT, "")

    def leave_module(self) -> None:
        if self._modules:  # empty if the module was entered before the recorder
            self._modules.pop()
        self._linear_depth = 0

    def enter_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if self._active:
            self._name_optimizer(optimizer)
            self._in_optimizer = True

    def leave_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        self._in_optimizer = False
        if self._active:
            self._name_optimizer(optimizer)

    def _name_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Name the optimizer's parameters, their gradients and its own state."""
        for group in optimizer.param_groups:
            for position, parameter in enumerate(group["params"]):
                label = self._names.get(id(parameter), f"parameter {position}")
                self._name(parameter, Kind.PARAMETER, label)
                self._name(parameter.grad, Kind.GRADIENT, label)
                for key, value in optimizer.state.get(parameter, {}).items():
                    if isinstance(value, Tensor):
                        self._name(value, Kind.OPTIMIZER, f"{label}.{key}")
