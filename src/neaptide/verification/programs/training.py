"""Trains a network until the file `stop` is there: python -m ... NETWORK SCALE BATCH ITERATIONS FOLDER NAME.

It does at least so many iterations, over which its digest goes. Every iteration is one byte of NAME.steps.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from time import monotonic_ns

import msgspec
import torch
from torch import Tensor, nn

from neaptide.models import build
from neaptide.models.zoo import Scale
from neaptide.verification.facts import Training

_BLOCK_BYTES = 4 << 20
_FILL = 173


def main(network: str, scale: Scale, batch: str, iterations: str, folder: str, name: str) -> None:
    """Train, and write NAME.json."""
    device = torch.accelerator.current_accelerator()
    assert device is not None, "the program finds no device"
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(0)
    work = build(network, batch=int(batch), scale=scale, device=device)
    pattern = torch.randint(0, 256, (_BLOCK_BYTES,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    copied, filled = pattern.to(device), torch.full_like(pattern, _FILL, device=device)
    digest, first_launches, ends = hashlib.sha256(), _FirstLaunches(), list[int]()
    stop = Path(folder) / "stop"
    with (Path(folder) / f"{name}.steps").open("wb", buffering=0) as steps:
        while len(ends) < int(iterations) or not stop.exists():
            first_launches.expect()
            loss = work.step()
            torch.accelerator.synchronize()
            ends.append(monotonic_ns())
            if len(ends) <= int(iterations):
                digest.update(_bytes_of(loss))
            if len(ends) == int(iterations):
                for parameter in work.model.parameters():
                    digest.update(_bytes_of(parameter))
            steps.write(b".")
    seen = Training(
        digest=digest.hexdigest(),
        computes=_computes(device),
        wrong_blocks=(not torch.equal(copied.cpu(), pattern)) + (not bool((filled.cpu() == _FILL).all())),
        first_launches_ns=tuple(first_launches.at_ns),
        ends_ns=tuple(ends),
    )
    (Path(folder) / f"{name}.json").write_bytes(msgspec.json.encode(seen))


class _FirstLaunches:
    """Notes when the first module of an iteration has launched its ops: by then the iteration has its permit."""

    def __init__(self) -> None:
        self.at_ns: list[int] = []
        self._expected = False
        nn.modules.module.register_module_forward_hook(self._launched)

    def expect(self) -> None:
        self._expected = True

    def _launched(self, *_: object) -> None:
        if self._expected:
            self._expected = False
            self.at_ns.append(monotonic_ns())


def _bytes_of(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _computes(device: torch.device) -> bool:
    """Whether a product comes out right; a stand-in for a GPU has kernels that do nothing."""
    return bool((torch.ones(64, 64, device=device) @ torch.ones(64, 64, device=device) == 64).cpu().all())


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
