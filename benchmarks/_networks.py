"""Networks as deep as in their papers, or half as deep, whose iterations take some tenths of a second on two cores.

Images have their channels last, so that convolutions on the CPU need no copies in another layout.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.attention import Style
from neaptide.models.bert import BERT, masked_sentences, pretraining_loss
from neaptide.models.bert import Size as BertSize
from neaptide.models.gpt import GPT, gelu
from neaptide.models.resnet import ResNet
from neaptide.models.rnnlm import RNNLM
from neaptide.models.rnnlm import Size as LstmSize
from neaptide.models.unet import UNet, segments
from neaptide.models.vgg import STAGES, VGG
from neaptide.models.zoo import Recipe, adam

_BERT = BertSize(6, 128, 4, vocabulary=500, positions=64, length=64, masked=8)
_GPT = Style(width=128, heads=4, hidden=512, activation=gelu, norm_first=True)
_LSTM = LstmSize(96, 24, 0.5, 200, layers=8)


def _perceptron() -> nn.Module:
    wide = [layer for _ in range(3) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 1024), nn.ReLU(), *wide, nn.Linear(1024, 10))


NETWORKS = {
    "ResNet-50": Recipe(partial(ResNet, 50, (3, 4, 6, 3), 16, 10), feed.images(96, 10), feed.cross_entropy, 32),
    "MLP": Recipe(_perceptron, feed.images(16, 10), feed.cross_entropy, 256),
    "conv net": Recipe(partial(VGG, STAGES["vgg11"], 16, 256, 32, 10), feed.images(32, 10), feed.cross_entropy, 64),
    "VGG-16": Recipe(partial(VGG, STAGES["vgg16"], 16, 256, 64, 10), feed.images(64, 10), feed.cross_entropy, 32),
    "BERT": Recipe(partial(BERT, _BERT), masked_sentences(_BERT), pretraining_loss, 16, adam),
    "GPT-2": Recipe(partial(GPT, 500, 64, 6, _GPT), feed.tokens(64, 500), feed.cross_entropy, 16, adam),
    "U-Net": Recipe(partial(UNet, 4, 16), segments(204, 20), F.cross_entropy, 4),
    "LSTM": Recipe(partial(RNNLM, _LSTM), feed.tokens(24, 200), feed.cross_entropy, 64),
}


def to_device(tensors: Iterable[Tensor], layout: torch.memory_format = torch.channels_last) -> list[Tensor]:
    """Move tensors to the software GPU, and images to a layout."""
    moved = [tensor.to("soft") for tensor in tensors]
    return [each.to(memory_format=layout) if each.dim() == 4 else each for each in moved]
