"""SuperNeurons (PPoPP'18): AlexNet's memory technique by technique, and the largest networks that train in 12 GB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from neaptide.core.device import DeviceSpec
from neaptide.core.units import format_bytes
from neaptide.planning.analysis.layer_kinds import LayerKind
from neaptide.planning.apply import apply, summary_of
from neaptide.planning.plan import Plan, Planner
from neaptide.planning.planners import liveness, superneurons, vdnn
from neaptide.planning.planners.superneurons import Pool, Recomputation
from neaptide.reporting.formats import format_times
from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.claims import Claim, Source
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.networks.layers import network_trace
from neaptide.reproductions.networks.limits import (
    NETWORKS,
    REPORTED_BATCH,
    REPORTED_DEPTH,
    REPORTED_DEPTH_OF_TENSORFLOW,
    deepest_resnet,
    largest_batch,
    planned,
)
from neaptide.reproductions.networks.superneurons_networks import alexnet
from neaptide.reproductions.result import Column, Goal, Reproduction, Table

DEVICE = "K40-12GB"
BATCH = 200
PLENTY = 1 << 40  # bytes: a budget that any plan keeps
GROWN_BY: Mapping[str, Planner] = {  # the planners whose largest batches are compared
    "superneurons": superneurons.plan,
    "and joins": partial(superneurons.plan, offloaded=superneurons.OFFLOADED | {LayerKind.JOIN}),
    "vdnn": vdnn.plan,
}
LOOKED_AT = "resnet152"  # where vDNN reaches the larger batch, against the paper's aim


@dataclass(frozen=True, slots=True)
class Technique:
    """One row of the paper's table for AlexNet, in MB of 2^20 bytes. `way` is None before anything is offloaded."""

    name: str
    way: Recomputation | None
    published_mb: str
    reruns: int = 0
    source: Source = Source.PUBLIC

    def written(self, megabytes: str, reruns: int) -> str:
        return f"{megabytes}, {reruns} re-runs" if self.reruns else megabytes


GOLDEN = (
    Technique("baseline", None, "2189.437"),
    Technique("liveness", None, "1489.355"),
    Technique("offload and prefetch", Recomputation.NONE, "1132.155", source=Source.RECALLED),
    Technique("recompute, speed-centric", Recomputation.SPEED, "993.018", 14),
    Technique("recompute, memory-centric", Recomputation.MEMORY, "886.23", 23),
    Technique("recompute, cost-aware", Recomputation.COST_AWARE, "886.23", 17),
)


def reproduce(laboratory: Laboratory) -> Reproduction:
    """AlexNet by technique, then the largest batches and the deepest ResNet."""
    golden = _golden(laboratory)
    device = laboratory.device
    rows: list[tuple[object, ...]] = []
    with progress("looking for the largest networks") as on_progress:
        for done, (name, build) in enumerate(NETWORKS.items()):
            on_progress(done, len(NETWORKS) + 1)
            ours = [largest_batch(build, planner, device) for planner in GROWN_BY.values()]
            rows.append((name, REPORTED_BATCH.get(name), largest_batch(build, None, device), *ours))
        if not any(row[2] for row in rows):
            memory = format_bytes(device.memory_bytes)
            raise ValueError(
                f"none of {', '.join(NETWORKS)} fits {device.name} ({memory}) at batch 16; name a larger device"
            )
        on_progress(len(NETWORKS), len(NETWORKS) + 1)
        depth = deepest_resnet(superneurons.plan, device)
        depth_alone = deepest_resnet(None, device)
    grown = min(row[3] / row[2] for row in rows if row[2])  # type: ignore[operator]
    return Reproduction(
        paper="SuperNeurons (PPoPP 2018)",
        device=device.name,
        setting=(
            f"AlexNet with a batch of {BATCH} in MB of 2^20 bytes; then the largest batch, in steps of 16, and the "
            "deepest ResNet at batch 16 whose training step fits the device beside its weights and their gradients.",
        ),
        tables=(
            Table(
                "batches",
                "Largest batch",
                (
                    Column("network", "network", left=True),
                    Column("reported", "reported"),
                    Column("liveness", "liveness"),
                    *(Column(planner, planner) for planner in GROWN_BY),
                ),
                rows,
            ),
        ),
        claims=(
            *golden,
            *(_batch_claim(row) for row in rows),
            *_depth_claims(depth, depth_alone),
            *(_vdnn_claim(int(str(row[-1]))) for row in rows if row[0] == "vgg16"),
        ),
        goals=(
            Goal("every network takes a larger batch than without it", f"at least {grown:.1f} times", grown > 1),
            *(_against_vdnn(row, device) for row in rows if row[0] == LOOKED_AT and row[3]),
        ),
        unknown=("What the device held beside the tensor pool, and which convolution workspaces were taken.",),
        differs=(
            "The paper prints 1132.155; its own rules give 1132.056, at the backward op of pool2.",
            "Our networks have no workspaces and an idle host link, so batches of ResNets are larger; VGG-16's "
            "largest layer limits its batch. InceptionV4 is not built layer by layer.",
            "A batch counts here if a plan for it fits, however slow. vDNN moves the input of every layer and may wait "
            "for each copy. SuperNeurons offloads the results of convolutions only and recomputes what is no "
            "checkpoint; the results of joins are checkpoints, so they stay on the device, one per block of a ResNet. "
            "The column `and joins` offloads them too.",
        ),
    )


def _golden(laboratory: Laboratory) -> list[Claim]:
    """AlexNet's peak under each technique: the pool, the network and the rules are the paper's."""
    # The paper's figures ignore time: a copy arrives when it is needed.
    device = replace(laboratory.device, link_bandwidth=1e15)
    everything = network_trace(alexnet(BATCH), device)
    live = apply(everything, liveness.plan(everything, PLENTY, device), device)
    pool = Pool.of(live)
    found = []
    for technique in GOLDEN:
        peak, reruns = (everything if technique.name == "baseline" else live).peak_bytes, 0
        if technique.way is not None:
            plan = Plan(planner="superneurons", gaps=pool.gaps(len(pool.offloadable), technique.way))
            summary = summary_of(live, plan, device)
            peak, reruns = summary.peak_bytes, summary.reruns
        decimals = len(technique.published_mb.partition(".")[2])
        ours = f"{peak / 2**20:.{decimals}f}"
        found.append(
            Claim(
                says=f"AlexNet at batch {BATCH}, peak in MB: {technique.name}",
                published=technique.written(technique.published_mb, technique.reruns),
                source=technique.source,
                ours=technique.written(ours, reruns),
                agrees=(ours, reruns) == (technique.published_mb, technique.reruns),
            )
        )
    return found


def _batch_claim(row: Sequence[object]) -> Claim:
    name, reported, _, ours = row[:4]
    return _limit_claim(f"largest batch of {name} in 12 GB", reported, ours)


def _against_vdnn(row: Sequence[object], device: DeviceSpec) -> Goal:
    """Whether SuperNeurons reaches vDNN's batch; what fills its memory, and the time of both at its largest batch."""
    name, batch, with_joins, of_vdnn = str(row[0]), *(int(str(each)) for each in row[3:6])
    network = NETWORKS[name](batch)
    ours = planned(network, superneurons.plan, device, LayerKind.JOIN)
    found = (
        f"{batch} against {of_vdnn}; results of joins are {format_bytes(ours.kind_bytes)} of its peak of "
        f"{format_bytes(ours.peak_bytes)}, and with them offloaded too the batch is {with_joins}"
    )
    if of_vdnn >= batch:
        slower = planned(network, vdnn.plan, device, LayerKind.JOIN).seconds / ours.seconds
        found += f"; at batch {batch} vDNN takes {format_times(slower)} the time"
    return Goal(f"{name}'s largest batch is at least vDNN's", found, batch >= of_vdnn)


def _vdnn_claim(largest: int) -> Claim:
    """VDNN's own largest network; that it is 18% slower there can be judged only if it fits."""
    return Claim(
        says="vDNN: VGG-16 at batch 256, which needs 28 GB, trains in 12 GB",
        published="fits, -18% speed",
        source=Source.PUBLIC,
        ours=f"at most {largest}",
        agrees=largest >= 256,
        other_setting="Another GPU of 12 GB, and other layers' buffers.",
    )


def _depth_claims(depth: int, depth_alone: int) -> list[Claim]:
    alone = _limit_claim("deepest ResNet at batch 16 without it", REPORTED_DEPTH_OF_TENSORFLOW, depth_alone)
    other = "Theirs is TensorFlow's, which keeps and frees by rules of its own; ours is liveness alone."
    return [
        _limit_claim("deepest ResNet at batch 16", REPORTED_DEPTH, depth),
        replace(alone, agrees=None, other_setting=other),
    ]


def _limit_claim(says: str, reported: object, ours: object) -> Claim:
    return Claim(
        says=says,
        published="-" if reported is None else str(reported),
        source=Source.RECALLED,
        ours=str(ours),
        agrees=None if reported is None else int(str(ours)) >= int(str(reported)),
        other_setting="What the device held beside the pool, and the workspaces of convolutions, are unknown.",
    )
