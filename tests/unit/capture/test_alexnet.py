"""SuperNeurons' golden case: the layer outputs of AlexNet at batch 200."""

from __future__ import annotations

import pytest

from neaptide import estimate, models
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Phase

pytestmark = pytest.mark.networks

MEBIBYTES = {
    "conv1": 221.558, "relu1": 221.558, "lrn1": 221.558, "pool1": 53.394,
    "conv2": 142.383, "relu2": 142.383, "lrn2": 142.383, "pool2": 33.008,
    "conv3": 49.512, "relu3": 49.512, "conv4": 49.512, "relu4": 49.512, "conv5": 33.008, "relu5": 33.008,
    "pool5": 7.031,
    "fc1": 3.125, "relu6": 3.125, "drop1": 3.125, "fc2": 3.125, "relu7": 3.125, "drop2": 3.125,
    "fc3": 0.763, "softmax": 0.763,
}  # fmt: skip


def test_every_layer_output_has_the_papers_size() -> None:
    trace = estimate(lambda: models.build("alexnet", batch=200).step, find_device("K40"))
    outputs: dict[str, float] = {}
    for op in range(len(trace.ops)):
        if trace.ops.phase[op] == Phase.FORWARD and trace.ops.module[op] in MEBIBYTES:
            # A layer's last op gives its output; pooling also gives the places of the maxima.
            outputs[trace.ops.module[op]] = trace.tensors.bytes[trace.ops.writes[op][0]] / 2**20
    assert {name: round(size, 3) for name, size in outputs.items()} == MEBIBYTES
