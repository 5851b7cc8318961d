"""The trace of a step that is not run: fake tensors give its ops and bytes, a roofline gives its seconds.

It needs no data and no device, so a job's memory is known before it starts (a question that Salus left open).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from neaptide.capture.recording.cutting import Times, Where
from neaptide.capture.recording.hooks import watching
from neaptide.capture.recording.log import Log
from neaptide.capture.session import CaptureError, Session
from neaptide.capture.timing.cost import roofline_seconds
from neaptide.capture.timing.rnn_workspace import rnn_workspace_bytes
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace

Step = Callable[[], object]

# A program that reads more values than this is in a loop that no invented value ends.
_MOST_ANSWERS = 10_000

aten = torch.ops.aten

# These losses are reduced inside the storage of their unreduced values, on every device.
_REDUCED_IN_PLACE = {aten.mse_loss, aten.smooth_l1_loss, aten.binary_cross_entropy, aten.soft_margin_loss}


def estimate(
    build: Callable[[], Step],
    device: DeviceSpec,
    *,
    name: str = "",
    batch: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """The trace of the step that `build` returns, on a device that this machine need not have.

    `build` and the step run on fake tensors, which have shapes but no values. Where the program reads a value
    (`loss.item()`), it gets an invented one.
    """
    where = Where(
        name=name or getattr(build, "__qualname__", "step"),
        device=device.name,
        sms=device.sms,
        batch=batch,
        estimated=True,
        asynchronous=True,
    )
    session = Session(torch.device("cpu"), timed=0, on_progress=on_progress)
    with _nothing_real():
        step = build()
        try:
            with watching(session.recorder):
                while session.advance():
                    step()
        except DynamicOutputShapeException as error:
            raise CaptureError(
                f"{error.func} gives a shape that depends on values, and an estimate has no values: measure it instead"
            ) from None
        finally:
            session.close()
        return session.trace(where, times=lambda log, start, end: _roofline(log, start, end, device))


def _roofline(log: Log, start: int, end: int, device: DeviceSpec) -> Times:
    seconds = roofline_seconds([kernel.cost for kernel in log.kernels[start:end]], device)
    count = end - start
    return Times(seconds, np.full(count, device.host_seconds), np.zeros(count, dtype=np.int64))


class _Corrections(TorchDispatchMode):
    """Corrects what fake kernels do not know: values, and storages that are larger than their shapes say."""

    def __init__(self) -> None:
        super().__init__()
        self._answers = 0
        self._affirmed = WeakTensorKeyDictionary()  # results of `all`

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = func.overloadpacket
        if packet is aten._local_scalar_dense and getattr(args[0], "constant", None) is None:
            return self._invent(args[0])
        out = func(*args, **(kwargs or {}))
        if packet is aten.all:
            self._affirmed[out] = True
        if packet in _REDUCED_IN_PLACE and out.dim() == 0:
            return torch.empty(args[0].numel(), dtype=out.dtype, device=out.device)[0]
        if packet is aten.mkldnn_rnn_layer:
            output, hidden, cell, workspace = out
            size = rnn_workspace_bytes(args)
            return output, hidden, cell, torch.empty(size, dtype=workspace.dtype, device=workspace.device)
        return out

    def _invent(self, tensor: torch.Tensor) -> bool | int | float:
        """An unsuspicious value: `all` is true, any other bool is false, and a number is one."""
        self._answers += 1
        if self._answers > _MOST_ANSWERS:
            raise CaptureError(
                "the program loops until a value changes, and an estimate has no values: measure it instead"
            )
        if tensor.dtype is torch.bool:
            return tensor in self._affirmed
        return 1.0 if tensor.dtype.is_floating_point else 1


@contextmanager
def _nothing_real() -> Iterator[None]:
    with FakeTensorMode(allow_non_fake_inputs=True), _Corrections():
        yield
