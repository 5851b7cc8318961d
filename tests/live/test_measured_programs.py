"""Programs that a recorder could not measure are measured like any other, and their numbers do not change."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

with patch.dict(os.environ, {"NEAPTIDE_SOFT_SMS": "1", "NEAPTIDE_SOFT_CAPACITY": "1GiB", "NEAPTIDE_SOFT_WAIT": "5"}):
    try:
        import neaptide.devices.soft  # noqa: F401 - makes the device
    except RuntimeError as impossible:
        pytest.skip(str(impossible), allow_module_level=True)

sys.path.append(str(Path(__file__).parent))
from test_bit_identical import measured

from daemons import MIB, until
from real_jobs import StartDaemon

STEPS = 12
Program = Callable[[], list[Tensor]]


def _network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)).to("soft")


def _batch() -> Tensor:
    return torch.randn(4, 8).to("soft")


def _train(network: nn.Module, loss_of: Callable[[], Tensor]) -> list[Tensor]:
    update, losses = torch.optim.Adam(network.parameters()), []
    for _ in range(STEPS):
        update.zero_grad()
        loss = loss_of()
        loss.backward()
        update.step()
        losses.append(loss.detach().cpu())
    return losses


def per_sample_gradients_of_torch_func() -> list[Tensor]:
    network = _network()
    update, losses = torch.optim.SGD(network.parameters(), lr=0.1), []
    names = [name for name, _ in network.named_parameters()]

    def loss_of(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
        return torch.func.functional_call(network, parameters, (sample,)).square().mean()

    for _ in range(STEPS):
        parameters = {name: value.detach() for name, value in network.named_parameters()}
        each = torch.func.vmap(torch.func.grad_and_value(loss_of), in_dims=(None, 0))
        gradients, loss = each(parameters, _batch())
        for name, value in zip(names, network.parameters(), strict=True):
            value.grad = gradients[name].mean(0)
        update.step()
        losses.append(loss.cpu())
    return losses


def ctc_loss() -> list[Tensor]:
    network, loss = nn.Linear(8, 5).to("soft"), nn.CTCLoss()
    targets, lengths = torch.randint(1, 5, (3, 4)), (torch.full((3,), 12), torch.full((3,), 4))

    def loss_of() -> Tensor:
        return loss(network(torch.randn(12, 3, 8).to("soft")).log_softmax(2), targets.to("soft"), *lengths)

    return _train(network, loss_of)


def checkpointing(reentrant: bool) -> list[Tensor]:
    network = _network()

    def loss_of() -> Tensor:
        out: Tensor = checkpoint(network, _batch().requires_grad_(), use_reentrant=reentrant)
        return out.square().mean()

    return _train(network, loss_of)


def optimizer_without_a_module() -> list[Tensor]:
    weight = nn.Parameter(torch.ones(8, 8, device="soft"))
    update, losses = torch.optim.SGD([weight], lr=0.01), []
    for _ in range(STEPS):
        update.zero_grad()
        loss = (_batch() @ weight).square().mean()
        loss.backward()
        update.step()
        losses.append(loss.detach().cpu())
    return losses


PROGRAMS: dict[str, Program] = {
    "torch.func": per_sample_gradients_of_torch_func,
    "ctc": ctc_loss,
    "reentrant checkpointing": partial(checkpointing, reentrant=True),
    "checkpointing": partial(checkpointing, reentrant=False),
    "no module": optimizer_without_a_module,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_measured_and_its_losses_do_not_change(name: str) -> None:
    torch.manual_seed(3)
    plain = PROGRAMS[name]()
    torch.manual_seed(3)
    with measured() as seen:
        watched = PROGRAMS[name]()
    assert all(one.equal(other) for one, other in zip(plain, watched, strict=True))
    assert seen.trace is not None
    seen.trace.check()
    assert seen.trace.peak_bytes > seen.trace.persistent_bytes > 0


FLEXIBLE_ATTENTION = """
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
network = nn.Linear(8, 8).to("cuda")
update = torch.optim.Adam(network.parameters())
for _ in range(12):
    update.zero_grad()
    heads = network(torch.randn(2, 2, 16, 8).to("cuda"))
    flex_attention(heads, heads, heads, score_mod=lambda score, *_: score * 0.5).square().mean().backward()
    update.step()
"""


def test_a_program_with_flexible_attention_is_measured_and_ends_well(start: StartDaemon) -> None:
    daemon = start("neaptide", 100 * MIB)
    process = daemon.program("flexible", FLEXIBLE_ATTENTION)
    process.communicate(timeout=120)
    assert process.returncode == 0
    until(lambda: daemon.has("flexible", "done"), "it to be done")
    assert daemon.job("flexible").needs_bytes > 0
