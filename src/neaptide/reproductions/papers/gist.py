"""Gist (ISCA'18): networks whose stashed activations are encoded, and what decoding them costs."""

from __future__ import annotations

from statistics import mean

from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.experiments.gist import (
    PUBLISHED_BEST_RATIO,
    PUBLISHED_MEAN_RATIO,
    PUBLISHED_SLOWDOWN,
    rows,
)
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.result import Beside, Column, Goal, Reproduction, Table, times

DEVICE = "V100-16GB"
MODELS = {"alexnet": 128, "vgg16": 64, "resnet50": 64, "inception3": 32}


def reproduce(laboratory: Laboratory) -> Reproduction:
    """Everything that can be encoded is, losslessly and with reduced precision."""
    with progress("encoding"):
        traces = {name: laboratory.trace(name, batch) for name, batch in MODELS.items()}
        found = rows(traces, laboratory.device)
    lossy = [row for row in found if row.lossy]
    best, average = max(row.saved_ratio for row in lossy), mean(row.saved_ratio for row in lossy)
    slowdown = mean(row.slowdown for row in lossy)
    return Reproduction(
        paper="Gist (ISCA 2018)",
        device=laboratory.device.name,
        setting=("What the forward pass leaves for the backward pass, without over with codes; a codec's own time.",),
        tables=(
            Table(
                "networks",
                "Everything encoded",
                (
                    Column("network", "network", left=True),
                    Column("precision", "lossy", lambda yes: "reduced" if yes else "full"),
                    Column("stashed", "saved_ratio", times),
                    Column("ephemeral", "ephemeral_ratio", times),
                    Column("time", "slowdown", times),
                    Column("codecs", "tensors", lambda counts: ", ".join(f"{n} {c}" for c, n in counts.items())),
                ),
                [
                    (row.name, row.lossy, row.saved_ratio, row.ephemeral_ratio, row.slowdown, dict(row.tensors))
                    for row in found
                ],
            ),
        ),
        beside=(
            Beside("smaller, best", times(PUBLISHED_BEST_RATIO), times(best)),
            Beside("smaller, average", times(PUBLISHED_MEAN_RATIO), times(average)),
            Beside("time", times(PUBLISHED_SLOWDOWN), times(slowdown)),
        ),
        goals=(
            Goal("at least as small at best", times(best), best >= PUBLISHED_BEST_RATIO),
            Goal("at least as small on average", times(average), average >= PUBLISHED_MEAN_RATIO),
        ),
        reported=("2x at best, 1.8x on average, about 4% of time.",),
        unknown=("How sparse the activations were; half of them is assumed to be zero.",),
        differs=(
            "The bit codec is used wherever only the sign is read again, and half of all values are taken for zero, so "
            "that ours come out smaller; every encoded tensor is paid for at memory bandwidth, so they take longer.",
        ),
    )
