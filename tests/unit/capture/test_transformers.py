"""Networks from outside the project: Hugging Face models, built from a configuration without any download."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import transformers

from neaptide import estimate, measure
from neaptide.core.device import find_device

pytestmark = pytest.mark.networks

Step = Callable[[], object]


def language_step(model: torch.nn.Module, vocabulary: int, length: int) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def step() -> None:
        words = torch.randint(vocabulary, (2, length))
        optimizer.zero_grad()
        model(input_ids=words, labels=words).loss.backward()
        optimizer.step()

    return step


def bert() -> Step:
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    return language_step(transformers.BertForMaskedLM(config), 100, 16)


def gpt2() -> Step:
    config = transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=2, n_positions=32)
    return language_step(transformers.GPT2LMHeadModel(config), 100, 16)


def vit() -> Step:
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8
    )
    model = transformers.ViTForImageClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        model(pixel_values=torch.rand(2, 3, 32, 32), labels=torch.randint(2, (2,))).loss.backward()
        optimizer.step()

    return step


@pytest.mark.parametrize("build", [bert, gpt2, vit])
def test_estimate_and_measurement_agree(build: Callable[[], Step]) -> None:
    one, other = estimate(build, find_device("V100")), measure(build())
    for trace in (one, other):
        trace.check()
    assert len(one.ops) == len(other.ops)
    peaks = [int((trace.held_bytes - trace.ops.scratch_bytes).max()) for trace in (one, other)]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.01)
    assert one.persistent_bytes == other.persistent_bytes
