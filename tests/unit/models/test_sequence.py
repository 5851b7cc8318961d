"""The sequence families: as large as published, trainable at both scales, and causal where they must be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from neaptide.models import build, recipe

pytestmark = pytest.mark.networks

# Parameters published, and the relative difference allowed: the rounding, and the second bias of torch's LSTM.
# The transformer's paper says 65 M; the sizes it gives add up to 63.1 M.
PUBLISHED = {
    "seq2seq-small": (4_650_000, 0.002),  # as many as rnnlm, see the module
    "seq2seq-medium": (19_800_000, 0.002),
    "seq2seq-large": (66_000_000, 0.002),
    "rnnlm-small": (4_650_000, 0.002),
    "rnnlm-medium": (19_800_000, 0.002),
    "rnnlm-large": (66_000_000, 0.002),
    "gnmt": (160_000_000, 0.01),
    "rhn": (23_500_000, 0.005),
    "transformer": (65_000_000, 0.03),
    "gpt2": (124_439_808, 0.0),
}
# With both pre-training heads; the published count is the encoder's.
BERT_ENCODERS = {"bert-base": 109_482_240, "bert-large": 335_141_888}
# MLPerf's sizes with LSTMs; no count is published.
SPEECH = 54_824_157

NAMES = (*PUBLISHED, *BERT_ENCODERS, "speech")

# The index of the input whose later words must not influence earlier outputs.
CAUSAL = {
    "seq2seq-small": 1,
    "seq2seq-medium": 1,
    "seq2seq-large": 1,
    "gnmt": 1,
    "transformer": 1,
    "rnnlm-small": 0,
    "rnnlm-medium": 0,
    "rnnlm-large": 0,
    "rhn": 0,
    "gpt2": 0,
}

TIED = {"rhn": "embedding", "transformer": "embedding", "gpt2": "words", "bert-base": "encoder.words"}


def on_meta(name: str) -> nn.Module:
    with torch.device("meta"):
        return recipe(name, "paper").module()


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def every_tensor(output: Any) -> tuple[torch.Tensor, ...]:
    return output if isinstance(output, tuple) else (output,)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_network_at_paper_scale_has_the_published_parameters(name: str) -> None:
    published, tolerance = PUBLISHED[name]
    assert count(on_meta(name)) == pytest.approx(published, rel=tolerance, abs=0)


@pytest.mark.parametrize("name", BERT_ENCODERS)
def test_bert_encoder_has_the_published_parameters(name: str) -> None:
    encoder = on_meta(name).get_submodule("encoder")
    assert count(encoder) == BERT_ENCODERS[name]


def test_speech_has_the_parameters_of_its_layers() -> None:
    assert count(on_meta("speech")) == SPEECH


@pytest.mark.parametrize("name", NAMES)
def test_a_network_at_tiny_scale_trains_and_serves(name: str) -> None:
    torch.manual_seed(0)
    workload = build(name, scale="tiny")
    assert workload.step().isfinite()
    without = [path for path, parameter in workload.model.named_parameters() if parameter.grad is None]
    assert without == []
    assert all(tensor.isfinite().all() for tensor in every_tensor(workload.infer()))


@pytest.mark.parametrize("name", NAMES)
def test_a_network_at_tiny_scale_learns_a_fixed_batch(name: str) -> None:
    torch.manual_seed(0)
    chosen = recipe(name, "tiny")
    model = chosen.module().eval()  # dropout would hide the progress
    *inputs, target = chosen.sample(chosen.batch)
    optimizer = chosen.optimizer(model.parameters())
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = chosen.criterion(model(*inputs), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", CAUSAL)
def test_a_later_word_does_not_change_earlier_outputs(name: str) -> None:
    torch.manual_seed(0)
    chosen = recipe(name, "tiny")
    model = chosen.module().eval()
    *inputs, _ = chosen.sample(2)
    changed = list(inputs)
    changed[CAUSAL[name]] = inputs[CAUSAL[name]].clone()
    changed[CAUSAL[name]][:, -1] = (changed[CAUSAL[name]][:, -1] + 1) % 100
    with torch.no_grad():
        before, after = model(*inputs), model(*changed)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.allclose(before[:, -1], after[:, -1])


@pytest.mark.parametrize("name", [name for name in CAUSAL if CAUSAL[name] == 1])
def test_the_source_reaches_every_word_of_the_translation(name: str) -> None:
    torch.manual_seed(0)
    chosen = recipe(name, "tiny")
    model = chosen.module().eval()
    source, previous, _ = chosen.sample(2)
    with torch.no_grad():
        before, after = model(source, previous), model((source + 1) % 100, previous)
    assert ((before - after).abs().amax(dim=-1) > 0).all()


def test_bert_sees_both_sides_of_a_masked_word() -> None:
    torch.manual_seed(0)
    chosen = recipe("bert-base", "tiny")
    model = chosen.module().eval()
    words, segments, masked, _ = chosen.sample(1)
    masked = torch.tensor([[words.shape[1] // 2]])
    with torch.no_grad():
        before, _ = model(words, segments, masked)
        for side in (1, -1):
            changed = words.clone()
            changed[:, side] = (changed[:, side] + 1) % 100
            assert not torch.equal(model(changed, segments, masked)[0], before)


@pytest.mark.parametrize("name", TIED)
def test_the_classifier_weight_is_the_embedding(name: str) -> None:
    chosen = recipe(name, "tiny")
    model = chosen.module().eval()
    embedding = model.get_submodule(TIED[name])
    assert isinstance(embedding, nn.Embedding)
    of_that_height = [p for p in model.parameters() if p.ndim == 2 and p.shape[0] == embedding.num_embeddings]
    assert len(of_that_height) == 1
    # A word the batch does not hold is still scored, so the embedding's row for it gets a gradient.
    *inputs, target = chosen.sample(2)
    inputs = [torch.zeros_like(tensor) for tensor in inputs]
    chosen.criterion(model(*inputs), torch.zeros_like(target)).backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad[-1].abs().sum() > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_network_at_paper_scale_runs_forward_and_backward_on_fake_tensors(name: str) -> None:
    with FakeTensorMode():
        chosen = recipe(name, "paper")
        model = chosen.module()
        *inputs, target = chosen.sample(chosen.batch)
        chosen.criterion(model(*inputs), target).backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
