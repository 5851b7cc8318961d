"""Gist (ISCA'18): how much less memory the saved activations take when they are encoded, and what decoding costs.

Published: 2x smaller at best and 1.8x on average with reduced precision, for about 4% of time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.apply import summary_of
from neaptide.planning.planners import gist
from neaptide.reporting.formats import format_times
from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.claims import Claim, Source
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.result import Column, Reproduction, Table

DEVICE = "V100-16GB"
MODELS = {"alexnet": 128, "vgg16": 64, "resnet50": 64, "inception3": 32}
PUBLISHED_BEST_RATIO, PUBLISHED_MEAN_RATIO, PUBLISHED_SLOWDOWN = 2.0, 1.8, 1.04


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedNetwork:
    """One network with everything encoded."""

    name: str
    lossy: bool
    ephemeral_ratio: float  # ephemeral bytes without codecs over those with codecs
    saved_ratio: float  # the same for the bytes that the forward pass saves for the backward pass
    slowdown: float
    tensors: Mapping[str, int]  # the number of tensors per codec


def reproduce(laboratory: Laboratory) -> Reproduction:
    """Encode every tensor that can be encoded, losslessly and with reduced precision."""
    with progress("encoding"):
        traces = {name: laboratory.trace(name, batch) for name, batch in MODELS.items()}
        found = encode_networks(traces, laboratory.device)
    lossy = [row for row in found if row.lossy]
    best, average = max(row.saved_ratio for row in lossy), mean(row.saved_ratio for row in lossy)
    slowdown = mean(row.slowdown for row in lossy)
    return Reproduction(
        paper="Gist (ISCA 2018)",
        device=laboratory.device.name,
        setting=(
            "Bytes that the forward pass saves for the backward pass, without codecs over with codecs; and the time "
            "that the codecs add.",
        ),
        tables=(
            Table(
                "networks",
                "Everything encoded",
                (
                    Column("network", "network", left=True),
                    Column("precision", "lossy", lambda yes: "reduced" if yes else "full"),
                    Column("stashed", "saved_ratio", format_times),
                    Column("ephemeral", "ephemeral_ratio", format_times),
                    Column("time", "slowdown", format_times),
                    Column("codecs", "tensors", lambda counts: ", ".join(f"{n} {c}" for c, n in counts.items())),
                ),
                [
                    (row.name, row.lossy, row.saved_ratio, row.ephemeral_ratio, row.slowdown, dict(row.tensors))
                    for row in found
                ],
            ),
        ),
        claims=(
            _claim("stashed bytes, smaller at best", PUBLISHED_BEST_RATIO, best, best >= PUBLISHED_BEST_RATIO),
            _claim("stashed bytes, smaller on average", PUBLISHED_MEAN_RATIO, average, average >= PUBLISHED_MEAN_RATIO),
            _claim("time of an iteration", PUBLISHED_SLOWDOWN, slowdown, slowdown <= PUBLISHED_SLOWDOWN),
        ),
        goals=(),
        unknown=("How sparse the activations were; we assume that half of the values are zero.",),
        differs=(
            "We use the bit codec wherever the backward pass reads only the sign, and assume that half of all values "
            "are zero, so our activations are smaller. We charge every encoded tensor at memory bandwidth, so our "
            "iterations take longer.",
        ),
    )


def _claim(says: str, published: float, ours: float, agrees: bool) -> Claim:
    return Claim(
        says=says,
        published=format_times(published),
        source=Source.PUBLIC,
        ours=format_times(ours),
        agrees=agrees,
        other_setting="Estimated traces of our own networks; half of the values are assumed to be zero.",
    )


def encode_networks(traces: Mapping[str, Trace], device: DeviceSpec) -> list[EncodedNetwork]:
    """Each network lossless and lossy."""
    return [_encode(name, trace, lossy, device) for name, trace in traces.items() for lossy in (False, True)]


def _encode(name: str, trace: Trace, lossy: bool, device: DeviceSpec) -> EncodedNetwork:
    plan = gist.encode_all(trace, lossy)
    found = summary_of(trace, plan, device)
    saved, coded = gist.saved_bytes(trace, lossy)
    codecs = sorted(gap.codec for gap in plan.gaps if gap.codec is not None)
    return EncodedNetwork(
        name=name,
        lossy=lossy,
        ephemeral_ratio=trace.ephemeral_bytes / max(found.peak_bytes - trace.persistent_bytes, 1),
        saved_ratio=saved / max(coded, 1),
        slowdown=found.seconds / trace.seconds,
        tensors={codec: codecs.count(codec) for codec in dict.fromkeys(codecs)},
    )
