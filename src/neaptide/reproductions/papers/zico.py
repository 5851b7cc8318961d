"""Zico's evaluation (ATC'21): identical and other pairs of training jobs, and one pair under 11 GB over time.

It runs on the paper's two devices, unless another one is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean

from neaptide.core.device import find_device
from neaptide.core.units import format_bytes
from neaptide.reporting.figures.bars import Bars, save_bars
from neaptide.reporting.figures.shared_memory import save_shared_memory
from neaptide.reporting.formats import format_times
from neaptide.reproductions.claims import Claim, Mark, Source
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.pairs import NOISE, ROUNDS, PairResult
from neaptide.reproductions.result import Column, Goal, Reproduction, Table, percent
from neaptide.reproductions.zico_pairs import LABELS, POLICIES, Evaluation, evaluate

DEVICE = "V100-16GB"
SECOND_DEVICE = "RTX-2080Ti"
OTHER_SETTING = "Virtual time, estimated PyTorch programs, batch sizes and budgets of ours."


def reproduce(laboratory: Laboratory) -> Reproduction:
    """Run all pairs on the paper's devices, or on the one that was named."""
    laboratories = [laboratory]
    if laboratory.device.name == DEVICE:
        laboratories.append(Laboratory(find_device(SECOND_DEVICE), laboratory.seed))
    return _report([evaluate(each) for each in laboratories])


def _report(found: Sequence[Evaluation]) -> Reproduction:
    return Reproduction(
        paper="Zico (USENIX ATC 2021)",
        device=" and ".join(each.device for each in found),
        setting=(
            f"Two jobs train for as long as {ROUNDS} iterations of each take in turns. Throughput is work per time "
            "between whole iterations, relative to temporal sharing.",
            "Budget: half-way between the memory that turns need (both persistent bytes and the larger ephemeral "
            "bytes) and the sum of peaks; at most the device. Spatial (MPS) gets the same memory and pages the excess.",
        ),
        tables=[table for at, each in enumerate(found) for table in _tables(each, f"_{each.device}" if at else "")],
        claims=_claims(found),
        goals=_goals([pair for each in found for pair in each.everything]),
        unknown=(
            "The height of every bar, the batch sizes, all memory budgets but one, how far MPS is oversubscribed, "
            "which NASNet, the cap on kernels in flight, and what Zico does when a prediction fails.",
        ),
        differs=(
            "Utilisation here is the mean share of the SMs that kernels fill, idle time included; the paper does not "
            "define its measure. If no batch size reaches the paper's figure, the nearest is taken and printed.",
            "Their jobs run in TensorFlow 1.13 on the device; ours are estimates of PyTorch programs in virtual time. "
            "NASNet is the mobile variant (a GPU holds it twice), BERT the base one.",
            "How much kernels slow each other down follows docs/fidelity.md, which was fitted to other programs.",
            "Where the paper gives no rule, zico has two of ours (policies/zico.py). They were chosen after trying "
            "them on the V100's pairs, so no claim on zico's speed counts as holding. The RTX 2080 Ti was not tried.",
            "A paging op fetches the share of its bytes that is away, at a bandwidth that was measured on another GPU "
            "(core/rules/over_the_link.h). A driver that evicts what was used longest ago would fetch more.",
        ),
        figures={name: save for each in found for name, save in _figures(each).items()},
    )


def _figures(found: Evaluation) -> dict[str, Callable[[Path], None]]:
    first, second = found.example.members
    title = (
        f"NASNet (batch {first.batch}) + ResNet-110 (batch {second.batch}), {found.device}, "
        f"budget {format_bytes(found.example.budget_bytes)}"
    )
    same = [f"{pair.members[0].short}{round(100 * pair.utilisations[0])}" for pair in found.identical]
    bars = {
        "non-identical": Bars("Throughput (x temporal)", LABELS, _series(found.different), 1.0, "Non-identical pairs"),
        "identical": Bars("Throughput (x temporal)", same, _series(found.identical), 1.0, "Identical pairs"),
    }
    return {
        **{f"zico-{name}-{found.device}.png": partial(save_bars, each) for name, each in bars.items()},
        f"zico-11GB-{found.device}.png": partial(save_shared_memory, found.example.runs, title),
    }


def _series(pairs: Sequence[PairResult]) -> dict[str, list[float]]:
    return {name: [pair.throughput(name) for pair in pairs] for name in POLICIES}


def _tables(found: Evaluation, suffix: str) -> list[Table]:
    on = f" on {found.device}"
    return [
        _table(f"identical{suffix}", f"Identical pairs{on}", found.identical),
        _table(
            f"non_identical{suffix}", f"Non-identical pairs{on}, at the paper's utilisations", found.different, LABELS
        ),
        _table(f"example{suffix}", f"NASNet + ResNet-110 under 11 GB{on}", [found.example]),
        _oversubscribed_table(f"oversubscribed{suffix}", found),
    ]


def _table(key: str, title: str, pairs: Sequence[PairResult], labels: Sequence[str] = ()) -> Table:
    columns = (
        Column("pair", "pair", left=True),
        Column("batches", "batches"),
        Column("utili-\nsation", "utilisation", lambda uses: "+".join(map(percent, uses))),
        Column("budget", "budget_bytes", format_bytes),
        Column("", "budget_share"),
        Column("peaks/\nbudget", "oversubscription", format_times),
        *(Column(name.replace("-", "-\n"), name, format_times) for name in POLICIES),
        Column("zico's\nstalls", "zico_stalls", lambda value: f"{value:.2f}"),
        Column("", "zico_least"),
    )
    rows = [
        (
            labels[index] if labels else "-".join(member.short for member in pair.members),
            "+".join(str(member.batch) for member in pair.members),
            pair.utilisations,
            pair.budget_bytes,
            pair.budget_bytes / pair.peaks_bytes,
            pair.oversubscription,
            *(pair.throughput(name) for name in POLICIES),
            pair.stalls["zico"],
            min(pair.progress["zico"]),  # progress of the slower job, relative to running alone
        )
        for index, pair in enumerate(pairs)
    ]
    return Table(
        key, title, columns, rows, ["Stalls: of all iterations, those that waited for memory after their begin."]
    )


def _oversubscribed_table(key: str, found: Evaluation) -> Table:
    columns = (
        Column("peaks/\nmemory", "oversubscription", format_times),
        Column("pairs", "pairs"),
        Column("spatial-paged,\nmean", "spatial_paged", format_times),
        Column("zico,\nmean", "zico", format_times),
        Column("spatial-paged\nover temporal", "over_temporal"),
        Column("spatial-paged\nover zico", "over_zico"),
    )
    rows = [
        (
            factor,
            len(pairs),
            mean(pair.throughput("spatial-paged") for pair in pairs),
            mean(pair.throughput("zico") for pair in pairs),
            sum(pair.throughput("spatial-paged") > 1 for pair in pairs),
            sum(pair.throughput("spatial-paged") > pair.throughput("zico") for pair in pairs),
        )
        for factor, pairs in found.oversubscribed.items()
        if pairs
    ]
    title = f"The non-identical pairs on {found.device}, oversubscribed by one factor"
    return Table(
        key, title, columns, rows, ["The last two columns count pairs. Pairs that cannot take turns are left out."]
    )


def _claims(found: Sequence[Evaluation]) -> list[Claim]:
    everything = [pair for each in found for pair in each.everything]
    different = [pair for each in found for pair in each.different]
    gain = max(pair.throughput("zico") for pair in everything)
    over_paged = max(pair.throughput("zico") / pair.throughput("spatial-paged") for pair in everything)
    by_use = sorted(different, key=lambda pair: sum(pair.utilisations))
    half = len(by_use) // 2
    low = mean(pair.throughput("zico") for pair in by_use[:half])
    high = mean(pair.throughput("zico") for pair in by_use[-half:])
    over_ticktock = mean(pair.throughput("zico") / pair.throughput("ticktock") for pair in different)
    least_over_ticktock, worst = _least_ratio(different, "zico", "ticktock")
    paged = mean(pair.throughput("spatial-paged") for pair in different)
    slower = sum(pair.throughput("spatial-paged") < 1 for pair in different)
    factors = sorted(pair.oversubscription for pair in different)
    return [
        _claim("Zico over temporal sharing, best pair", "up to 1.6x", format_times(gain), gain >= 1.6, recalled=True),
        _claim(
            "Zico over the other sharing approaches (ours: MPS with paging), best pair",
            "up to 8.3x",
            format_times(over_paged),
            over_paged >= 8.3,
            recalled=True,
        ),
        _claim(
            "more gain where a low-utilisation job is co-located: the half of the non-identical pairs with the lower "
            "utilisation, against the other half",
            "more, without a number",
            f"{format_times(low)} against {format_times(high)}",
            low > high,
            chosen=True,
        ),
        _claim(
            "naive scheduling (tick-tock) wastes time where jobs differ: Zico over it, mean of the non-identical pairs",
            "wastes time, without a number",
            f"{over_ticktock:.3f}x, at least {least_over_ticktock:.3f}x ({worst})",
            over_ticktock > 1 + NOISE,
            chosen=True,
        ),
        _claim(
            "MPS suffers when memory is oversubscribed: against temporal, mean of the non-identical pairs",
            "suffers, without a number",
            f"{format_times(paged)}, slower on {slower} of {len(different)}; peaks are {format_times(factors[0])} to "
            f"{format_times(factors[-1])} of the memory",
            paged < 1 and slower > len(different) / 2,
        ),
    ]


def _claim(
    says: str, published: str, ours: str, agrees: bool, *, recalled: bool = False, chosen: bool = False
) -> Claim:
    """`chosen`: the figure depends on rules of ours that were tried on these pairs."""
    return Claim(
        says=says,
        published=published,
        source=Source.RECALLED if recalled else Source.STATED,
        ours=ours,
        agrees=agrees,
        other_setting=OTHER_SETTING,
        marked=[Mark.CHOSEN] if chosen else [],
    )


def _goals(pairs: Sequence[PairResult]) -> list[Goal]:
    stalls = mean(pair.stalls["zico"] for pair in pairs)
    return [
        _least("zico at least as fast as temporal on every pair", pairs, "zico", "temporal"),
        _least("neaptide at least as fast as zico on every pair", pairs, "neaptide", "zico"),
        Goal(
            "stalls inside zico's iterations are rare", f"{stalls:.3f} per iteration, mean of all pairs", stalls <= 0.05
        ),
    ]


def _least(says: str, pairs: Sequence[PairResult], ours: str, theirs: str) -> Goal:
    ratio, worst = _least_ratio(pairs, ours, theirs)
    return Goal(says, f"at least {ratio:.3f} times ({worst})", ratio >= 1 - NOISE)


def _least_ratio(pairs: Sequence[PairResult], ours: str, theirs: str) -> tuple[float, str]:
    return min((pair.throughput(ours) / pair.throughput(theirs), pair.name) for pair in pairs)
