"""Restores the in-place ops that the framework avoids while a dispatch mode records.

Without a mode, the autograd engine sums the gradients of two branches into the first if nothing else holds it, a linear
layer adds its bias in place, and the backward pass of a lookup scatters into new zeros. With a mode, each of them makes
one more tensor.
"""

from __future__ import annotations

from dataclasses import replace

from neaptide.capture.recording.log import Kernel, Log, Storage
from neaptide.core.traces.trace import Phase

_SCATTERS = {"aten::scatter_add", "aten::index_add", "aten::index_put"}
_ZEROS = {"aten::new_zeros", "aten::zeros", "aten::zeros_like"}


def undo_copies(log: Log) -> Log:
    """The log as it would be without the recorder."""
    storages = [replace(storage) for storage in log.storages]
    stands_for = list(range(len(storages)))
    kernels: list[Kernel] = []
    for index, recorded in enumerate(log.kernels):
        kernel = replace(
            recorded,
            reads=tuple(dict.fromkeys(stands_for[number] for number in recorded.reads)),
            writes=tuple(dict.fromkeys(stands_for[number] for number in recorded.writes)),
            first=None if recorded.first is None else stands_for[recorded.first],
        )
        if _was_in_place(kernel, index, storages, kernels):
            kernel = _in_place(kernel, storages, stands_for)
        kernels.append(kernel)
    calls = []
    for name, clock in log.calls:
        in_place = clock < len(kernels) and kernels[clock].name == f"{name}_"
        calls.append((f"{name}_" if in_place else name, clock))
    return Log(
        kernels=kernels,
        calls=calls,
        launched=log.launched,
        storages=storages,
        root_starts=log.root_starts,
        stands_for=stands_for,
    )


def _was_in_place(kernel: Kernel, index: int, storages: list[Storage], before: list[Kernel]) -> bool:
    if kernel.first is None or len(kernel.writes) != 1:
        return False
    first, result = storages[kernel.first], storages[kernel.writes[0]]
    if first.died != index or result.born != index or first.bytes != result.bytes:
        return False
    if kernel.name == "aten::add" and kernel.phase is Phase.BACKWARD:
        # The engine does not add into a view, which holds its base.
        return kernel.first_is_whole and len(kernel.shapes) == 2 and kernel.shapes[0] == kernel.shapes[1]
    if kernel.name == "aten::add":
        return kernel.in_linear
    fresh = bool(before) and before[-1].name in _ZEROS and kernel.first in before[-1].writes
    return kernel.name in _SCATTERS and kernel.phase is Phase.BACKWARD and fresh


def _in_place(kernel: Kernel, storages: list[Storage], stands_for: list[int]) -> Kernel:
    """The kernel as an in-place op: it writes its first argument, which replaces the result."""
    assert kernel.first is not None
    made = kernel.writes[0]
    first, result = storages[kernel.first], storages[made]
    stands_for[made] = kernel.first
    first.died, first.saved = result.died, first.saved or result.saved
    if result.kind is not None:
        first.kind, first.label = result.kind, result.label
    result.died = result.born - 1  # never held
    return replace(kernel, name=f"{kernel.name}_", writes=(kernel.first,))
