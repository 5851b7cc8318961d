"""The networks of the jobs that the Gavel project measured, with the batches and optimizers of its scripts.

CIFAR-10's ResNet-18, ImageNet's ResNet-50, a Transformer on Multi30k, a two-layer LSTM on WikiText-2, an autoencoder on
MovieLens-20M, A3C on Pong and CycleGAN at 256 x 256. Each builder takes a batch and gives a training step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neaptide import models
from neaptide.models.attention import Style
from neaptide.models.resnet import Block
from neaptide.models.rnnlm import RNNLM, Size
from neaptide.models.transformer import Transformer

Step = Callable[[], object]

# MovieLens-20M, prepared for recommendation; a step of Gavel's job is an epoch.
USERS, ITEMS, SEEN = 116_677, 20_108, 73
WORDS, SENTENCE = 9_500, 28  # Multi30k; a sentence includes the padding of its batch
WORDS_AT_ONCE = 35  # time steps of the language model
PLAYED = 20  # moves of A3C between two updates


def _trains(
    model: nn.Module, sample: Callable[[], tuple[Tensor, ...]], loss: Callable[..., Tensor], adam: bool = False
) -> Step:
    parameters = list(model.parameters())
    optimizer: torch.optim.Optimizer
    # One launch per parameter, as in the PyTorch of that time.
    if adam:
        optimizer = torch.optim.Adam(parameters, foreach=False)
    else:
        optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4, foreach=False)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        loss(model, *sample()).backward()
        optimizer.step()

    return step


class _CifarResNet18(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.blocks = nn.Sequential(*(Block(a, b, 1 if a == b else 2, bottleneck=False) for a, b in pairwise(widths)))
        self.classifier = nn.Linear(512, 10)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.blocks(self.stem(images)).mean((2, 3)))
        return scores


def _resnet18(batch: int) -> Step:
    return _trains(
        _CifarResNet18(),
        lambda: (torch.rand(batch, 3, 32, 32), torch.randint(10, (batch,))),
        lambda model, images, classes: F.cross_entropy(model(images), classes),
    )


def _resnet50(batch: int) -> Step:
    made = models.build("resnet50", batch)
    return _trains(
        made.model, lambda: made.sample(batch), lambda model, images, classes: made.criterion(model(images), classes)
    )


def _transformer(batch: int) -> Step:
    style = Style(width=512, heads=8, hidden=2048, activation=nn.ReLU)
    model = Transformer(WORDS, SENTENCE, 6, style)
    return _trains(
        model,
        lambda: tuple(torch.randint(WORDS, (batch, SENTENCE)) for _ in range(3)),
        lambda model, source, previous, target: F.cross_entropy(
            model(source, previous).flatten(0, 1), target.flatten()
        ),
        adam=True,
    )


def _lm(batch: int) -> Step:
    model = RNNLM(Size(units=200, steps=WORDS_AT_ONCE, dropout=0.2, vocabulary=33_278))

    def step() -> None:  # plain SGD by hand, with clipped gradients
        words, target = (torch.randint(33_278, (batch, WORDS_AT_ONCE)) for _ in range(2))
        model.zero_grad(set_to_none=False)
        F.cross_entropy(model(words).flatten(0, 1), target.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25, foreach=False)
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.data.add_(parameter.grad, alpha=-20)

    return step


def _recommendation(batch: int) -> Step:
    # The number of items that the users of a batch have seen, by Heaps' law.
    items = min(ITEMS, int(ITEMS * (batch / 8192) ** 0.3))
    encoder, decoder = nn.Embedding(ITEMS, 200), nn.Embedding(ITEMS, 200)
    biases = nn.ParameterList([torch.zeros(200), torch.zeros(ITEMS)])
    model = nn.ModuleList([encoder, decoder, biases])

    def sample() -> tuple[Tensor, ...]:
        return torch.randint(batch * items, (SEEN * batch,)), torch.randint(ITEMS, (items,))

    def loss(_model: nn.Module, places: Tensor, columns: Tensor) -> Tensor:
        seen = torch.zeros(batch * items).index_put((places,), torch.ones(())).view(batch, items)
        hidden = torch.tanh(F.linear(F.dropout(F.normalize(seen)), encoder(columns).t(), biases[0]))
        scores = F.linear(hidden, decoder(columns), biases[1].index_select(0, columns))
        return F.binary_cross_entropy_with_logits(scores, seen, reduction="sum") / batch

    return _trains(model, sample, loss, adam=True)


class _Player(nn.Module):
    """A3C's network with an LSTM cell, which reads one image after another."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, kernel, padding in ((1, 32, 5, 2), (32, 32, 5, 1), (32, 64, 4, 1), (64, 64, 3, 1)):
            layers += [nn.Conv2d(before, after, kernel, padding=padding), nn.MaxPool2d(2), nn.ReLU()]
        self.eyes = nn.Sequential(*layers, nn.Flatten())
        self.memory = nn.LSTMCell(1024, 512)
        self.critic, self.actor = nn.Linear(512, 1), nn.Linear(512, 6)

    def forward(self, images: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        state = torch.zeros(1, 512), torch.zeros(1, 512)
        for image in images:
            state = self.memory(self.eyes(image.unsqueeze(0)), state)
            yield self.critic(state[0]), self.actor(state[0])


def _a3c(_batch: int) -> Step:
    def loss(model: nn.Module, images: Tensor) -> Tensor:
        total = torch.zeros(1, 1)
        for value, scores in model(images):
            log = F.log_softmax(scores, dim=1)
            entropy = -(log * log.exp()).sum(1)
            total = total - log[:, :1] * 0.5 - 0.01 * entropy + 0.5 * (1 - value).pow(2)
        return total.sum()

    return _trains(_Player(), lambda: (torch.rand(PLAYED, 1, 80, 80),), loss, adam=True)


def _around(layer: nn.Module, width: int) -> list[nn.Module]:
    return [layer, nn.InstanceNorm2d(width), nn.ReLU(inplace=True)]


class _Generator(nn.Module):
    """CycleGAN's generator: two convolutions down, nine residual blocks, two convolutions up."""

    def __init__(self) -> None:
        super().__init__()
        down = [*_around(nn.Conv2d(3, 64, 7, padding=3), 64)]
        for width in (64, 128):
            down += _around(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), 2 * width)
        self.down = nn.Sequential(*down)
        self.blocks = nn.ModuleList(
            nn.Sequential(*_around(nn.Conv2d(256, 256, 3, padding=1), 256), nn.Conv2d(256, 256, 3, padding=1))
            for _ in range(9)
        )
        up: list[nn.Module] = []
        for width in (256, 128):
            up += [nn.Upsample(scale_factor=2), *_around(nn.Conv2d(width, width // 2, 3, padding=1), width // 2)]
        self.up = nn.Sequential(*up, nn.Conv2d(64, 3, 7, padding=3), nn.Tanh())

    def forward(self, images: Tensor) -> Tensor:
        x = self.down(images)
        for block in self.blocks:
            x = x + block(x)
        painted: Tensor = self.up(x)
        return painted


def _critic() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 64), (64, 128), (128, 256), (256, 512)):
        layers += _around(nn.Conv2d(before, after, 4, stride=2, padding=1), after)
    return nn.Sequential(*layers, nn.Conv2d(512, 1, 4, padding=1))


def _cyclegan(batch: int) -> Step:
    makes = nn.ModuleList([_Generator(), _Generator()])
    judges = nn.ModuleList([_critic(), _critic()])

    def paints(_model: nn.Module, a: Tensor, b: Tensor) -> Tensor:
        fake_a, fake_b = makes[0](b), makes[1](a)
        loss = F.l1_loss(makes[0](a), a) + F.l1_loss(makes[1](b), b)
        loss = loss + F.l1_loss(makes[0](fake_b), a) + F.l1_loss(makes[1](fake_a), b)
        return loss + judges[0](fake_a).pow(2).mean() + judges[1](fake_b).pow(2).mean()

    def judged(_model: nn.Module, a: Tensor, b: Tensor) -> Tensor:
        shown = ((judges[0], a), (judges[1], b), (judges[0], b), (judges[1], a))
        return torch.stack([judge(images).pow(2).mean() for judge, images in shown]).sum()

    def images() -> tuple[Tensor, ...]:
        return torch.rand(batch, 3, 256, 256), torch.rand(batch, 3, 256, 256)

    steps = _trains(makes, images, paints, adam=True), _trains(judges, images, judged, adam=True)

    def step() -> None:
        for each in steps:
            each()

    return step


BUILDERS: dict[str, Callable[[int], Step]] = {
    "ResNet-18": _resnet18,
    "ResNet-50": _resnet50,
    "Transformer": _transformer,
    "LM": _lm,
    "Recommendation": _recommendation,
    "A3C": _a3c,
    "CycleGAN": _cyclegan,
}
