"""Zico's evaluation (ATC'21): identical and other pairs of training jobs, and one pair under 11 GB over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import mean

from neaptide.core.units import format_bytes, parse_bytes
from neaptide.reporting.figures.bars import Bars, save_bars
from neaptide.reporting.figures.shared_memory import save_shared_memory
from neaptide.reporting.formats import format_times
from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.pairs import (
    LADDERS,
    NOISE,
    ROUNDS,
    Member,
    PairResult,
    find_member,
    member_order,
    run_pair,
)
from neaptide.reproductions.result import Beside, Column, Goal, Reproduction, Table, percent

DEVICE = "V100-16GB"
POLICIES = ("temporal", "spatial-paged", "ticktock", "zico", "neaptide")
# The paper's eleven pairs, with the GPU utilisation of each job in per cent.
PAIRS = (
    ("GT", 90, "RH", 60),
    ("RH", 90, "GT", 35),
    ("NN", 80, "GT", 45),
    ("NN", 60, "GT", 50),
    ("NN", 30, "GT", 90),
    ("BT", 80, "GT", 40),
    ("BT", 60, "GT", 50),
    ("BT", 45, "NN", 90),
    ("RN", 95, "NN", 30),
    ("RN", 70, "GT", 60),
    ("NN", 45, "RN", 80),
)
IDENTICAL = (50, 80)  # per cent, for each network
EXAMPLE_BUDGET = parse_bytes("11GB")
EXAMPLE = (Member("NN", "nasnet-mobile", 96), Member("RN", "resnet110", 768))  # their peaks sum to 13 GB


def reproduce(laboratory: Laboratory) -> Reproduction:
    """Run all pairs."""
    wanted = [(short, use) for first, u, second, v in PAIRS for short, use in ((first, u), (second, v))]
    wanted += [(short, use) for short in LADDERS for use in IDENTICAL]
    found = {(short, use): find_member(laboratory, short, use) for short, use in wanted}
    same = sorted({found[short, use] for short in LADDERS for use in IDENTICAL}, key=member_order)
    pairs = [(found[first, u], found[second, v]) for first, u, second, v in PAIRS] + [(each, each) for each in same]
    for member in EXAMPLE:
        laboratory.trace(member.model, member.batch)
    results: list[PairResult] = []
    with progress("simulating pairs") as on_progress:
        for pair in pairs:
            on_progress(len(results), len(pairs) + 1)
            results.append(run_pair(laboratory, pair, POLICIES))
        budget = min(EXAMPLE_BUDGET, laboratory.device.memory_bytes)
        shown = run_pair(laboratory, EXAMPLE, POLICIES, budget_bytes=budget, keep=True)
    return _report(laboratory, results[: len(PAIRS)], results[len(PAIRS) :], shown)


def _report(
    laboratory: Laboratory, different: Sequence[PairResult], identical: Sequence[PairResult], example: PairResult
) -> Reproduction:
    everything = [*different, *identical, example]
    gains = [pair.throughput("zico") for pair in everything]
    paged = [pair.throughput("zico") / pair.throughput("spatial-paged") for pair in everything]
    example_title = (
        f"NASNet (batch {example.members[0].batch}) + ResNet-110 (batch {example.members[1].batch}), "
        f"{laboratory.device.name}, budget {format_bytes(example.budget_bytes)}"
    )
    labels = [f"{a}{u}-{b}{v}" for a, u, b, v in PAIRS]
    return Reproduction(
        paper="Zico (USENIX ATC 2021)",
        device=laboratory.device.name,
        setting=(
            f"Two jobs train for as long as {ROUNDS} iterations of each take in turns. Throughput is work per time "
            "between whole iterations, relative to temporal sharing.",
            "Budget: half-way between the memory that turns need (both persistent bytes and the larger ephemeral "
            "bytes) and the sum of peaks; at most the device. Spatial gets the same memory and pages the excess.",
        ),
        tables=(
            _table("identical", "Identical pairs", identical),
            _table("non_identical", "Non-identical pairs, at the paper's GPU utilisations", different, labels),
            _table("example", "NASNet + ResNet-110 under 11 GB", [example]),
        ),
        beside=(
            Beside("zico over temporal, best pair", "up to 1.6x", format_times(max(gains))),
            Beside(
                "zico over temporal, mean of the eleven pairs", "not given as a number", format_times(mean(gains[:11]))
            ),
            Beside("zico over spatial (MPS, paged), best pair", "up to 8.3x", format_times(max(paged))),
        ),
        goals=_goals(different, identical, example),
        reported=(
            "Up to 8.3x over other sharing approaches and up to 1.6x over temporal are recalled from the paper, not "
            "re-checked. The paper states the pairs, their utilisations, the devices and the baselines.",
        ),
        unknown=(
            "The height of every bar, the batch sizes, all memory budgets but one, which NASNet, the cap on kernels in "
            "flight, and what Zico does when a prediction fails.",
        ),
        differs=(
            "Utilisation here is the mean share of the SMs that kernels fill, idle time included; the paper does not "
            "define its measure. If no batch size reaches the paper's figure, the nearest is taken and printed.",
            "Their jobs run in TensorFlow 1.13 on the device; ours are estimates of PyTorch programs in virtual time. "
            "NASNet is the mobile variant (a GPU holds it twice), BERT the base one.",
            "How much kernels slow each other down follows docs/fidelity.md, which was fitted to other programs.",
        ),
        figures={
            "zico-non-identical.png": partial(
                save_bars,
                Bars("Throughput (x temporal)", labels, _series(different), 1.0, "Non-identical pairs"),
            ),
            "zico-identical.png": partial(
                save_bars,
                Bars(
                    "Throughput (x temporal)",
                    [f"{pair.members[0].short}{round(100 * pair.utilisations[0])}" for pair in identical],
                    _series(identical),
                    1.0,
                    "Identical pairs",
                ),
            ),
            "zico-11GB.png": partial(save_shared_memory, example.runs, example_title),
        },
    )


def _series(pairs: Sequence[PairResult]) -> dict[str, list[float]]:
    return {name: [pair.throughput(name) for pair in pairs] for name in POLICIES}


def _table(key: str, title: str, pairs: Sequence[PairResult], labels: Sequence[str] = ()) -> Table:
    columns = (
        Column("pair", "pair", left=True),
        Column("batches", "batches"),
        Column("utili-\nsation", "utilisation", lambda uses: "+".join(map(percent, uses))),
        Column("budget", "budget_bytes", format_bytes),
        Column("of\npeaks", "budget_share", percent),
        *(Column(name.replace("-", "-\n"), name, format_times) for name in POLICIES),
        Column("", "zico_least"),
    )
    rows = [
        (
            labels[index] if labels else "-".join(member.short for member in pair.members),
            "+".join(str(member.batch) for member in pair.members),
            pair.utilisations,
            pair.budget_bytes,
            pair.budget_bytes / pair.peaks_bytes,
            *(pair.throughput(name) for name in POLICIES),
            min(pair.progress["zico"]),  # progress of the slower job, relative to running alone
        )
        for index, pair in enumerate(pairs)
    ]
    return Table(key, title, columns, rows)


def _goals(different: Sequence[PairResult], identical: Sequence[PairResult], example: PairResult) -> list[Goal]:
    everything = [*different, *identical, example]
    by_use = sorted(different, key=lambda pair: sum(pair.utilisations))
    half = len(by_use) // 2
    low = mean(pair.throughput("zico") for pair in by_use[:half])
    high = mean(pair.throughput("zico") for pair in by_use[-half:])
    return [
        _least("zico at least as fast as temporal on every pair", everything, "zico", "temporal"),
        _least("zico at least as fast as ticktock on every non-identical pair", different, "zico", "ticktock"),
        _least("neaptide at least as fast as zico on every pair", everything, "neaptide", "zico"),
        Goal(
            "zico gains more where utilisation is lower (the emptier half of the eleven pairs against the fuller)",
            f"{format_times(low)} against {format_times(high)}",
            low > high,
        ),
    ]


def _least(says: str, pairs: Sequence[PairResult], ours: str, theirs: str) -> Goal:
    ratio, worst = min((pair.throughput(ours) / pair.throughput(theirs), pair.name) for pair in pairs)
    return Goal(says, f"at least {ratio:.3f} times ({worst})", ratio >= 1 - NOISE)
