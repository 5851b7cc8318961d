"""Programs that train on cuda train on the software GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from cuda_name import cuda_is_soft

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture(autouse=True)
def cuda() -> Iterator[None]:
    with cuda_is_soft():
        yield


def test_a_parameter_that_moves_stays_the_same_object() -> None:
    model = nn.Linear(2, 2)
    weight = model.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)  # before the move, as many programs have it
    model.cuda()
    assert model.weight is weight
    assert weight.is_cuda
    before = weight.detach().clone()
    model(torch.ones(1, 2, device="cuda")).sum().backward()
    optimizer.step()
    assert torch.equal(model.weight, before - 1)
    model.cpu()
    assert model.weight is weight
    assert weight.grad is not None
    assert not weight.grad.is_cuda


def test_autocast_means_soft_in_every_spelling() -> None:
    a = torch.ones(2, 2, device="cuda")
    assert not torch.is_autocast_enabled()
    with torch.autocast("cuda"):
        assert (a @ a).dtype == torch.float16 == torch.get_autocast_gpu_dtype()
        assert torch.is_autocast_enabled()
        assert torch.is_autocast_enabled("cuda")
        with torch.autocast("cuda", enabled=False):
            assert (a @ a).dtype == torch.float32
    with pytest.warns(FutureWarning), torch.cuda.amp.autocast(dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16


def test_random_numbers_are_those_of_soft() -> None:
    torch.cuda.manual_seed_all(3)
    first = torch.randn(4, device="cuda").cpu()
    torch.soft.manual_seed(3)
    assert torch.equal(torch.randn(4, device="soft").cpu(), first)
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert torch.equal(torch.randn(4, device="cuda", generator=generator).cpu(), first)
    assert generator.device.type == "cuda"
    states = torch.cuda.get_rng_state_all()
    with torch.random.fork_rng():
        torch.randn(4, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state("cuda:0"), states[0])
    drawn = torch.randn(4, device="cuda")
    torch.cuda.set_rng_state(states[0], 0)
    assert torch.equal(torch.randn(4, device="cuda"), drawn)


def test_checkpointing_draws_the_same_masks_again() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8)).cuda()
    x = torch.ones(4, 8, device="cuda")
    gradients = []
    for wrapped in (False, True):
        torch.manual_seed(5)
        out = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False) if wrapped else model(x)
        model.zero_grad()
        out.sum().backward()
        gradients.append(model[0].weight.grad.clone())
    assert torch.equal(*gradients)


def test_shared_parameters_stay_shared() -> None:
    model = nn.Sequential(nn.Embedding(4, 2), nn.Linear(2, 4, bias=False))
    model[1].weight = model[0].weight
    model.to("cuda")
    assert model[1].weight is model[0].weight


def test_an_encoder_takes_a_padding_mask_in_evaluation() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).cuda().eval()
    mask = torch.tensor([[False, False, True], [False, False, False]], device="cuda")
    with torch.no_grad():
        assert encoder(torch.ones(2, 3, 8, device="cuda"), src_key_padding_mask=mask).shape == (2, 3, 8)


def test_data_parallel_works_with_one_device() -> None:
    model = nn.DataParallel(nn.Linear(3, 2)).cuda()
    out = model(torch.ones(4, 3))
    out.sum().backward()
    assert out.is_cuda
    assert model.module.weight.grad.is_cuda


def test_pinned_memory_works_as_on_cuda() -> None:
    loader = torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2, pin_memory=True)
    assert all(batch.is_pinned() and batch.cuda(non_blocking=True).is_cuda for batch in loader)
