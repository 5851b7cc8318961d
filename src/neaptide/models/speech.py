"""Deep Speech 2 (Amodei et al., 2016) in MLPerf's size: two convolutions, five bidirectional layers of 800.

The layers are LSTMs, not GRUs: torch's GRU on a CPU unrolls into 230,000 operators per iteration. The loss is a
cross entropy per frame, not CTC: aten::_ctc_loss has an output shape that depends on data, so it cannot run on
fake tensors. Both losses need little memory beside the layers.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.zoo import Recipe, Sample, Scale, family, momentum


def spectrograms(bands: int, frames: int, symbols: int) -> Sample:
    """Spectrograms; the target is a symbol for each of the frames left by the first convolution's stride."""

    def sample(batch: int) -> tuple[Tensor, ...]:
        return torch.rand(batch, 1, bands, frames), torch.randint(symbols, (batch, frames // 2))

    return sample


def convolution(inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int]) -> nn.Sequential:
    """A convolution over bands and time, with batch normalisation and a clipped rectifier."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=(kernel[0] // 2, kernel[1] // 2), bias=False),
        nn.BatchNorm2d(outputs),
        nn.Hardtanh(0.0, 20.0, inplace=True),
    )


class BidirectionalLayer(nn.Module):
    """Batch normalisation over all frames, then an LSTM each way; the two outputs are summed."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(inputs)
        self.lstm = nn.LSTM(inputs, width, batch_first=True, bidirectional=True)

    def forward(self, frames: Tensor) -> Tensor:
        both, _ = self.lstm(self.norm(frames.flatten(0, 1)).view_as(frames))
        forward, backward = both.chunk(2, dim=-1)
        total: Tensor = forward + backward
        return total


class DeepSpeech(nn.Module):
    """From a spectrogram to a score per frame and symbol."""

    def __init__(self, bands: int, channels: int, layers: int, width: int, symbols: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            convolution(1, channels, (41, 11), (2, 2)),
            convolution(channels, channels, (21, 11), (2, 1)),
        )
        features = channels * -(-bands // 4)
        widths = [features] + [width] * layers
        self.recurrent = nn.Sequential(
            *(BidirectionalLayer(inputs, width) for inputs in widths[:-1]),
        )
        self.classifier = nn.Linear(width, symbols)

    def forward(self, spectrograms: Tensor) -> Tensor:
        frames = self.convolutions(spectrograms).flatten(1, 2).transpose(1, 2)
        scores: Tensor = self.classifier(self.recurrent(frames))
        return scores


@family("speech")
def speech(_name: str, scale: Scale) -> Recipe:
    paper = scale == "paper"
    # Ten seconds in frames of 10 ms with 161 bands; 26 letters, blank, space and apostrophe.
    bands, frames, symbols = (161, 1000, 29) if paper else (41, 64, 29)
    channels, layers, width = (32, 5, 800) if paper else (8, 3, 32)
    return Recipe(
        module=partial(DeepSpeech, bands, channels, layers, width, symbols),
        sample=spectrograms(bands, frames, symbols),
        criterion=feed.cross_entropy,
        batch=25 if paper else 8,
        optimizer=momentum,
    )
