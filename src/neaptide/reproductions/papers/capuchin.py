"""Capuchin (ASPLOS'20): the largest batch of BERT, by swapping what is hidden and recomputing what is cheap."""

from __future__ import annotations

from neaptide.planning.planners import PLANNERS
from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.experiments.capuchin import PUBLISHED_BERT_BATCH_RATIO, rows, scaled
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.result import Beside, Column, Goal, Reproduction, Table, times

DEVICE = "V100-16GB"
MODEL, BATCH = "bert-base", 32
COMPARED = ("capuchin", "vdnn", "best")


def reproduce(laboratory: Laboratory) -> Reproduction:
    """The largest batch without a planner, and with some."""
    trace = laboratory.trace(MODEL, BATCH)
    with progress("looking for the largest batch"):
        planners = {name: PLANNERS.make(name) for name in COMPARED}
        found = rows(MODEL, lambda batch: scaled(trace, batch), planners, laboratory.device)
    ours = next((row.batch_ratio for row in found if row.planner == "capuchin"), 0.0)
    return Reproduction(
        paper="Capuchin (ASPLOS 2020)",
        device=laboratory.device.name,
        setting=(f"{MODEL}: its iteration at batch {BATCH}, scaled to other batches; the device's whole memory.",),
        tables=(
            Table(
                "batches",
                "Largest batch",
                (
                    Column("planner", "planner", lambda name: name or "none", left=True),
                    Column("batch", "batch"),
                    Column("of none", "batch_ratio", times),
                    Column("time per sample", "slowdown", times),
                ),
                [(row.planner, row.batch, row.batch_ratio, row.slowdown) for row in found],
            ),
        ),
        beside=(Beside("BERT's largest batch over that without", f"{PUBLISHED_BERT_BATCH_RATIO:.0f}x", times(ours)),),
        goals=(Goal("BERT's batch grows as published", times(ours), ours >= PUBLISHED_BERT_BATCH_RATIO),),
        reported=("Seven times TensorFlow's largest batch on BERT.",),
        unknown=("The sequence length, and what the framework held beside the tensors.",),
        differs=(
            "Theirs is the largest batch that ran at all; ours the largest whose plan fits, with its time per sample "
            "beside it. A trace at another batch is a scaled one, so small differences mean nothing.",
        ),
    )
