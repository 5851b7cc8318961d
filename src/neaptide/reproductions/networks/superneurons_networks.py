"""The networks of SuperNeurons' evaluation, layer by layer."""

from __future__ import annotations

from neaptide.planning.analysis.layer_kinds import LayerKind
from neaptide.reproductions.networks.layer_stack import Stack
from neaptide.reproductions.networks.layers import Network

ACT, NORM, DROPOUT, SOFTMAX = LayerKind.ACTIVATION, LayerKind.NORMALIZATION, LayerKind.DROPOUT, LayerKind.SOFTMAX


def alexnet(batch: int) -> Network:
    """AlexNet of 23 layers with local response normalization, 227 x 227."""
    net = Stack("alexnet", batch, 227)
    net.convolution(96, 11, 4)
    net.same(ACT, NORM)
    net.pooling(3, 2)
    net.convolution(256, 5, padding=2)
    net.same(ACT, NORM)
    net.pooling(3, 2)
    for channels in (384, 384, 256):
        net.convolution(channels, 3, padding=1)
        net.same(ACT)
    net.pooling(3, 2)
    return _classified(net)


def vgg16(batch: int) -> Network:
    """VGG-16, 224 x 224."""
    net = Stack("vgg16", batch, 224)
    for channels, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            net.convolution(channels, 3, padding=1)
            net.same(ACT)
        net.pooling(2, 2)
    return _classified(net)


def _classified(net: Stack) -> Network:
    """The network with the classifier that AlexNet and VGG share."""
    for _ in range(2):
        net.fully_connected(4096)
        net.same(ACT, DROPOUT)
    net.fully_connected(1000)
    net.same(SOFTMAX)
    return net.network()


def resnet(blocks: tuple[int, int, int, int], batch: int) -> Network:
    """A ResNet of bottleneck blocks, 224 x 224; its depth is three times the number of blocks plus two."""
    net = Stack(f"resnet{3 * sum(blocks) + 2}", batch, 224)
    net.convolution(64, 7, 2, 3)
    net.same(NORM, ACT)
    net.pooling(3, 2, 1)
    for stage, repeats in enumerate(blocks):
        inner = 64 << stage
        for position in range(repeats):
            start, stride = net.top, 2 if stage > 0 and position == 0 else 1
            net.convolution(inner, 1)
            net.same(NORM, ACT)
            net.convolution(inner, 3, stride, 1)
            net.same(NORM, ACT)
            net.convolution(4 * inner, 1)
            end = net.same(NORM)
            if position == 0:
                net.convolution(4 * inner, 1, stride, source=start)
                start = net.same(NORM)
            net.join(end, start)
            net.same(ACT)
    net.pooling(7, 7)
    net.fully_connected(1000)
    net.same(SOFTMAX)
    return net.network()


RESNETS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def deep_resnet(third: int, batch: int) -> Network:
    """SuperNeurons' deep ResNet: stages of 6, 32, `third` and 6 blocks."""
    return resnet((6, 32, third, 6), batch)
