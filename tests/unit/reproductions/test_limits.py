"""The search for the largest batch and the deepest network that fit a device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from neaptide.core.device import find_device
from neaptide.planning.planners import liveness
from neaptide.reproductions.networks import limits
from neaptide.reproductions.networks.superneurons_networks import alexnet

V100 = find_device("V100-16GB")


@pytest.mark.parametrize("most", range(40))
def test_the_largest_batch_is_the_last_that_fits_and_few_are_tried(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def fits(batch: Any, *_: object) -> bool:
        tried.append(batch)
        return batch <= 8 * most

    monkeypatch.setattr(limits, "fits", fits)
    assert limits.largest_batch(lambda batch: batch, None, V100, step=8) == 8 * most  # type: ignore[arg-type, return-value]
    assert all(batch > 0 and batch % 8 == 0 for batch in tried)
    assert len(tried) == len(set(tried))
    assert len(tried) <= 2 * most.bit_length() + 1


@pytest.mark.parametrize(("blocks", "depth"), [(0, 0), (1, 137), (2, 140), (7, 155)])
def test_the_deepest_resnet_has_three_layers_a_block_and_two_more(
    blocks: int, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "deep_resnet", lambda third, batch: (third, batch))
    monkeypatch.setattr(limits, "fits", lambda network, *_: network[0] <= blocks and network[1] == 4)
    assert limits.deepest_resnet(None, V100, batch=4) == depth


@pytest.mark.parametrize("planner", [None, liveness.plan])
def test_a_network_fits_the_device_that_has_its_peak_and_not_one_with_a_byte_less(planner: Any) -> None:
    network = alexnet(2)
    peak_bytes = limits.live_trace(network, V100, 2 * network.weight_bytes).peak_bytes
    assert peak_bytes > 2 * network.weight_bytes
    assert limits.fits(network, planner, replace(V100, memory_bytes=peak_bytes))
    assert not limits.fits(network, planner, replace(V100, memory_bytes=peak_bytes - 1))
