"""AlexNet (Krizhevsky et al., 2012) in one tower, with the layer list of SuperNeurons' golden case.

No layer works in place, so that each layer's output is a tensor of its own, as in SuperNeurons' accounting.
"""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.zoo import Recipe, Scale, family


class AlexNet(nn.Module):
    """Five convolutions and three linear layers, in the order and under the names of the paper's table."""

    def __init__(self, shrink: int, side: int, classes: int) -> None:
        super().__init__()
        narrow, middle, wide, hidden = 96 // shrink, 256 // shrink, 384 // shrink, 4096 // shrink
        self.conv1 = nn.Conv2d(3, narrow, 11, stride=4)
        self.relu1 = nn.ReLU()
        self.lrn1 = nn.LocalResponseNorm(5)
        self.pool1 = nn.MaxPool2d(3, stride=2)
        self.conv2 = nn.Conv2d(narrow, middle, 5, padding=2)
        self.relu2 = nn.ReLU()
        self.lrn2 = nn.LocalResponseNorm(5)
        self.pool2 = nn.MaxPool2d(3, stride=2)
        self.conv3 = nn.Conv2d(middle, wide, 3, padding=1)
        self.relu3 = nn.ReLU()
        self.conv4 = nn.Conv2d(wide, wide, 3, padding=1)
        self.relu4 = nn.ReLU()
        self.conv5 = nn.Conv2d(wide, middle, 3, padding=1)
        self.relu5 = nn.ReLU()
        self.pool5 = nn.MaxPool2d(3, stride=2)
        self.fc1 = nn.Linear(middle * side * side, hidden)
        self.relu6 = nn.ReLU()
        self.drop1 = nn.Dropout()
        self.fc2 = nn.Linear(hidden, hidden)
        self.relu7 = nn.ReLU()
        self.drop2 = nn.Dropout()
        self.fc3 = nn.Linear(hidden, classes)
        # The logarithm of the softmax: a tensor of the same size, and a loss that cannot overflow.
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, images: Tensor) -> Tensor:
        tensor = images
        for name, layer in self.named_children():
            tensor = layer(tensor.flatten(1) if name == "fc1" else tensor)
        return tensor


@family("alexnet")
def alexnet(_name: str, scale: Scale) -> Recipe:
    # `side` is what the strides leave of the image in front of fc1.
    shrink, image, side, classes = (1, 227, 6, 1000) if scale == "paper" else (16, 99, 2, 10)
    return Recipe(
        module=partial(AlexNet, shrink, side, classes),
        sample=feed.images(image, classes),
        criterion=F.nll_loss,
        batch=200 if scale == "paper" else 8,
    )
