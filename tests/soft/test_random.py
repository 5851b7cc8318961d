"""Random numbers follow the launches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from soft.gate import hold, let_go

SOFT = "soft"


def test_the_same_seed_gives_the_numbers_of_the_cpu() -> None:
    torch.manual_seed(1)
    device = [torch.rand(4, device=SOFT), torch.randn(40, device=SOFT), torch.randperm(5, device=SOFT)]
    device.append(F.dropout(torch.ones(50, device=SOFT), 0.1))
    torch.manual_seed(1)
    host = [torch.rand(4), torch.randn(40), torch.randperm(5), F.dropout(torch.ones(50), 0.1)]
    assert all(a.cpu().equal(b) for a, b in zip(device, host, strict=True))


def test_random_numbers_follow_the_launches_and_not_the_streams() -> None:
    def draw(streams: list[torch.Stream]) -> list[torch.Tensor]:
        torch.manual_seed(3)
        torch.soft.synchronize()
        values = []
        for stream in streams:
            with stream:
                values.append(F.dropout(torch.ones(100, device=SOFT), 0.5))
                values.append(torch.rand(10, device=SOFT))
        torch.soft.synchronize()
        return [value.cpu() for value in values]

    one, two = torch.soft.Stream(), torch.soft.Stream()
    assert all(a.equal(b) for a, b in zip(draw([one, two, one]), draw([one, one, one]), strict=True))


def test_dropout_does_not_make_launching_wait() -> None:
    value = torch.ones(100, device=SOFT)
    F.dropout(value, 0.5)
    F.dropout(value, 0.5)
    torch.soft.synchronize()
    hold()
    for _ in range(5):
        F.dropout(value, 0.5)
    assert torch.soft.in_flight() >= 10
    torch.manual_seed(1)  # does not wait either
    let_go()


def test_a_reseeded_generator_repeats_its_numbers() -> None:
    generator = torch.Generator(device=SOFT).manual_seed(3)
    first = torch.randn(5, generator=generator, device=SOFT)
    generator.manual_seed(3)
    assert torch.randn(5, generator=generator, device=SOFT).equal(first)


def test_checkpointing_replays_the_same_dropout() -> None:
    layer = torch.nn.Linear(8, 8).to(SOFT)
    gradients = []
    for wrapped in (False, True):
        torch.manual_seed(4)
        value = torch.ones(4, 8, device=SOFT, requires_grad=True)

        def forward(given: torch.Tensor) -> torch.Tensor:
            return F.dropout(layer(given), 0.5)

        output = checkpoint(forward, value, use_reentrant=False) if wrapped else forward(value)
        output.square().sum().backward()
        gradients.append(value.grad.cpu())
    assert gradients[0].equal(gradients[1])
