"""`neaptide reproduce`: each paper's experiment on small made-up traces; the figures themselves are not tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from builders import training_trace
from neaptide.core.device import DeviceSpec, find_device
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Trace
from neaptide.models import build
from neaptide.models.transformer import Transformer
from neaptide.reproductions import laboratory, pairs, serving, translation
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.mps import on_part
from neaptide.reproductions.pairs import half_way_budget
from neaptide.reproductions.papers import antman, corner, gandiva, herald, salus
from neaptide.reproductions.repetition import repeated
from neaptide.reproductions.zico_pairs import LABELS, OVERSUBSCRIBED
from neaptide.scenarios.trace_cache import TraceKey
from neaptide.simulation.outcome import MemorySeries
from reproductions import HEADINGS, headings_of, reproduced
from tides import MIB, tide

V100 = find_device("V100-16GB")
POLICIES_OF_PAIRS = ["temporal", "spatial-paged", "ticktock", "zico", "neaptide"]


def estimate(wanted: TraceKey, _device: DeviceSpec) -> Trace:
    """A tide whose height, duration and fill grow with the batch."""
    batch = wanted.batch or 1
    fill = min(1.0, 0.2 + batch / 200)
    if wanted.inference:
        return tide(wanted.model, 6, 0.01, 50 * MIB, 200 * MIB, fill, batch=1, inference=True)
    return tide(wanted.model, 20, 0.05 + batch / 1000, 100 * MIB, (100 + 10 * batch) * MIB, fill, batch=batch)


@pytest.fixture(autouse=True)
def asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[TraceKey]:
    """Made-up traces, an empty cache and short runs; returns the keys of the traces that were estimated."""
    asked: list[TraceKey] = []

    def noted(wanted: TraceKey, device: DeviceSpec) -> Trace:
        asked.append(wanted)
        return estimate(wanted, device)

    monkeypatch.setattr(laboratory, "estimate_model", noted)
    monkeypatch.setattr(herald, "_estimate", noted)
    monkeypatch.setattr("neaptide.scenarios.trace_cache.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(pairs, "ROUNDS", 4)
    monkeypatch.setattr(salus, "LENGTH", 0.001)
    monkeypatch.setattr(salus, "TRIALS", 3)
    monkeypatch.setattr(salus, "TRIAL_SECONDS", 1.0)
    monkeypatch.setattr(serving, "REQUESTS", 2)
    monkeypatch.setattr(herald, "BATCHES", 4)
    monkeypatch.setattr(corner, "REQUESTS", 8)
    monkeypatch.setattr(corner, "LEAST_ITERATIONS", 1)
    return asked


@pytest.mark.networks
@pytest.mark.parametrize("paper", ["zico", "salus", "herald", "wavelet", "gandiva", "antman", "corner"])
def test_every_paper_prints_claims_goals_and_notes(run: Any, tmp_path: Path, paper: str) -> None:
    text, values = reproduced(run, paper, "--figure", tmp_path / "figures")
    assert headings_of(text) == HEADINGS
    assert all(values[mark] for mark in ("claims", "goals", "unknown", "differs"))
    for goal in values["goals"]:
        assert ("holds " if goal["holds"] else "FAILS ") + goal["says"].split(" ")[0] in text
    files = list((tmp_path / "figures").iterdir())
    assert files
    assert all(f"figure written to {path}" in text and path.stat().st_size > 1000 for path in files)
    assert all(len(line) <= 100 for line in text.splitlines() if "figure written" not in line)


class TestZico:
    def test_eleven_pairs_and_six_networks_are_run_under_five_policies_on_the_papers_two_devices(
        self, run: Any
    ) -> None:
        _, values = reproduced(run, "zico")
        assert values["device"] == "V100-16GB and RTX-2080Ti"
        kinds = ["identical", "non_identical", "example", "oversubscribed"]
        assert list(values["tables"]) == [f"{kind}{suffix}" for suffix in ("", "_RTX-2080Ti") for kind in kinds]
        different = values["tables"]["non_identical"]
        assert [row["pair"] for row in different] == [
            *("GT90-RH60", "RH90-GT35", "NN80-GT45", "NN60-GT50", "NN30-GT90", "BT80-GT40"),
            *("BT60-GT50", "BT45-NN90", "RN95-NN30", "RN70-GT60", "NN45-RN80"),
        ]
        assert {row["pair"] for row in values["tables"]["identical"]} == {
            f"{short}-{short}" for short in ("NN", "RN", "R50", "GT", "BT", "RH")
        }
        [example] = values["tables"]["example"]
        for row in [*different, *values["tables"]["identical"]]:
            assert [name for name in row if name in POLICIES_OF_PAIRS] == POLICIES_OF_PAIRS
            assert row["temporal"] == 1
            assert row["budget_share"] < 1
        assert (example["pair"], example["budget_bytes"]) == ("NN-RN", 11_000_000_000)

    def test_one_device_can_be_named_and_no_claim_on_zicos_speed_counts_as_holding(self, run: Any) -> None:
        _, values = reproduced(run, "zico", "--device", "2080Ti")
        assert values["device"] == "RTX-2080Ti"
        rows = values["tables"]["oversubscribed"]
        assert rows
        assert {row["oversubscription"] for row in rows} <= set(OVERSUBSCRIBED)
        assert all(0 <= row["over_zico"] <= row["pairs"] and row["spatial_paged"] > 0 for row in rows)
        on_speed = [
            claim for claim in values["claims"] if "zico" in claim["says"].lower() or "more gain" in claim["says"]
        ]
        assert len(on_speed) == 4
        assert "holds" not in {claim["verdict"] for claim in on_speed}

    def test_the_budget_is_between_the_need_of_turns_and_the_sum_of_peaks(self) -> None:
        first, second = (Profile.of(tide(ephemeral=size * MIB)) for size in (900, 300))
        turns = first.persistent_bytes + second.persistent_bytes + 900 * MIB
        assert half_way_budget(first, second, 1 << 40) == turns + 150 * MIB
        assert half_way_budget(first, second, 1000 * MIB) == 1000 * MIB


class TestBatchSizes:
    LADDER = (10, 20, 40, 80, 120, 160)

    def test_the_batch_nearest_to_a_utilisation_is_chosen(self) -> None:
        bench = Laboratory(V100)
        uses = {batch: bench.profile("resnet50", batch).utilisation for batch in self.LADDER}
        for wanted in (0.1, 0.3, 0.45, 0.62, 0.9, 1.0):
            nearest = min(uses, key=lambda batch: abs(uses[batch] - wanted))
            assert bench.batch_near("resnet50", wanted, self.LADDER) == nearest

    def test_few_batch_sizes_are_estimated(self, asked_for: list[TraceKey]) -> None:
        Laboratory(V100).batch_near("resnet50", 0.5, tuple(range(1, 129)))
        assert len(asked_for) <= 9

    def test_a_batch_that_leaves_no_memory_for_another_job_is_not_chosen(self) -> None:
        small = replace(V100, memory_bytes=1000 * MIB)
        assert Laboratory(small).batch_near("resnet50", 1.0, self.LADDER) == 40
        with pytest.raises(ValueError, match="does not fit V100-16GB beside another job, even at batch 10"):
            Laboratory(replace(V100, memory_bytes=200 * MIB)).batch_near("resnet50", 1.0, self.LADDER)

    def test_a_trace_is_estimated_once_for_all_runs(self, asked_for: list[TraceKey]) -> None:
        for _ in range(2):
            Laboratory(V100).trace("resnet50", 8)
        assert asked_for == [TraceKey("resnet50", 8, "paper", False)]


class TestSalus:
    def test_five_policies_run_the_public_workloads_each_to_the_end(self, run: Any) -> None:
        _, values = reproduced(run, "salus")
        rows = values["tables"]["jobs"]
        assert [row["policy"] for row in rows] == [*salus.PUBLISHED, "neaptide"]
        assert values["goals"][0]["found"] == ", ".join(["99 of 99"] * 5)
        assert values["device"] == "P100-16GB"
        assert values["claims"][0]["published"] == "303.4 / 167.6 / 170.6 / 251.1"

    def test_42_instances_are_resident_though_their_peaks_exceed_the_memory(self) -> None:
        _, published = serving.serve(Laboratory(find_device("P100-16GB")))
        assert published.count == 42
        assert published.persistent_bytes == pytest.approx(9.758e9, rel=1e-6)
        assert published.ephemeral_bytes == 3_271_000_000
        assert published.peaks_bytes == pytest.approx(77.1e9, rel=0.01)
        resident = {row.policy: row.resident for row in published.rows}
        assert (resident["fifo"], resident["salus-pack"]) == (1, 42)
        assert resident["spatial"] < 42
        assert all(row.answered == 1 for row in published.rows)

    def test_the_seed_decides_which_jobs_are_long(self) -> None:
        def lengths(seed: int) -> list[int | None]:
            return [each.job.iterations for each in salus.public_jobs(Laboratory(V100, seed))]

        assert lengths(0) == lengths(0) != lengths(1)


class TestSeveralIterationsAsOne:
    def test_a_repeated_trace_takes_as_long_and_holds_as_much_as_single_iterations(self) -> None:
        one = training_trace()
        three = repeated(one, 3)
        three.check()
        assert three.seconds == pytest.approx(3 * one.seconds, rel=0.01)
        assert three.held_bytes.tolist() == one.held_bytes.tolist() * 3
        assert three.persistent_bytes == one.persistent_bytes
        assert repeated(one, 1) is one

    def test_only_short_iterations_are_repeated(self) -> None:
        bench = Laboratory(V100)
        one = bench.trace("vae", 64)
        assert bench.several("vae", 64, one.seconds) is one
        assert bench.several("vae", 64, 2.5 * one.seconds).batch == 3 * one.batch


class TestHerald:
    def test_each_training_job_is_run_in_five_ways_and_under_tighter_slos(self, run: Any) -> None:
        _, values = reproduced(run, "herald")
        rows = values["tables"]["main"]
        assert [(row["training"], row["way"]) for row in rows] == [
            (name, way) for name in ("RNNLM", "VGG-16") for way in herald.WAYS
        ]
        assert [row["slo_seconds"] for row in values["tables"]["by_slo"][::2]] == [1.6, 1.2, 0.8, 0.4]

    def test_mps_is_tuned_until_the_slo_is_kept(self) -> None:
        training, served = tide(ops=10, seconds=0.2), tide(ops=10, seconds=0.5, fill=1.0, inference=True)
        case = herald._Case(V100, "VGG-16", training, served, 0.8)
        tuned = herald._share(case)[2]
        assert case.run("MPS", "spatial").slo_kept < 0.99 <= tuned.slo_kept
        assert tuned.part in herald.PARTS
        larger = [part for part in herald.PARTS if part > tuned.part]
        assert all(case.run("MPS", "spatial", part).slo_kept < 0.99 for part in larger)

    def test_a_translation_matches_the_whole_network_and_more_beams_find_a_likelier_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        torch.manual_seed(0)
        workload = build("transformer", 8, "tiny")
        model = cast("Transformer", workload.model).eval()
        for weight in (parameter for parameter in model.parameters() if parameter.dim() > 1):
            torch.nn.init.normal_(weight, std=0.5)  # the initial weights repeat one word
        source, start = workload.sample(8)[0], torch.zeros(8, 1, dtype=torch.int64)

        def translate(beams: int) -> tuple[torch.Tensor, float]:
            monkeypatch.setattr(translation, "BEAMS", beams)
            said = translation.Translator(model, lambda _: (source,), 8, 6)()
            with torch.no_grad():
                scores = model(source, torch.cat((start, said[:, :-1]), dim=1)).log_softmax(dim=-1)
            return said, float(scores.gather(2, said.unsqueeze(2)).sum())

        greedy = start
        with torch.no_grad():
            for _ in range(6):
                word = model(source, greedy)[:, -1].argmax(dim=-1, keepdim=True)
                greedy = torch.cat((greedy, word), dim=1)
        said, likelihood = translate(beams=1)
        assert said.unique().numel() > 5
        assert torch.equal(said, greedy[:, 1:])
        assert translate(beams=4)[1] > likelihood

    def test_a_share_of_the_sms_slows_only_kernels_that_fill_more(self) -> None:
        trace = tide(fill=0.5)
        assert np.array_equal(on_part(trace, 0.5, V100).ops.seconds, trace.ops.seconds)
        quarter = on_part(trace, 0.25, V100)
        slower = quarter.ops.seconds / trace.ops.seconds
        assert slower.tolist()[:2] == pytest.approx([1.0, 2.0])  # bound by bandwidth, and by compute
        assert quarter.ops.fill.max() == 0.25


def ours(values: dict[str, Any]) -> Sequence[str]:
    return [each["ours"] for each in values["claims"]]


def test_wavelet_reports_the_average_and_the_best_gain(run: Any) -> None:
    _, values = reproduced(run, "wavelet")
    gains = [row["ticktock"] for row in values["tables"]["replicas"]]
    assert ours(values) == [f"{sum(gains) / len(gains):.2f}x", f"{max(gains):.2f}x"]


def test_gandiva_says_what_became_of_each_pair(run: Any) -> None:
    _, values = reproduced(run, "gandiva")
    rows = values["tables"]["pairs"]
    assert [row["pair"] for row in rows] == list(LABELS)
    assert {row["fate"] for row in rows} <= {gandiva.TOGETHER, gandiva.APART, gandiva.NEVER}
    assert all(0 < row["use_in_turns"] <= 1 for row in rows)
    assert [claim["verdict"] for claim in values["claims"][1:]] == ["cannot be judged"]


def test_antman_shows_the_memory_and_the_compute_in_use_beside_those_of_the_guaranteed_job(run: Any) -> None:
    _, values = reproduced(run, "antman")
    rows = values["tables"]["pairs"]
    assert [row["pair"] for row in rows] == list(LABELS)
    assert all(0 < row["memory"] <= 1 and 0 < row["memory_alone"] < 1 for row in rows)
    assert {claim["source"] for claim in values["claims"]} == {"recalled"}


def test_bytes_are_averaged_over_hours_on_a_large_device() -> None:
    hour_ns = 3600 * 10**9
    series = MemorySeries(np.array([0, hour_ns]), np.array([80 * 10**9, 40 * 10**9]))
    assert antman.held_on_average(series, 2 * hour_ns) == pytest.approx(60e9)


def test_the_corner_shows_twelve_pairs_in_five_ways_beside_tallys_table(run: Any) -> None:
    _, values = reproduced(run, "corner")
    assert len(values["tables"]["pairs"]) == 12 * 5
    assert values["tables"]["summary"][0]["way"] == "Tally (published)"
    assert all(row["tail"] >= 0.99 for row in values["tables"]["pairs"])


def test_a_paper_must_be_named(run: Any) -> None:
    papers = "zico, salus, herald, wavelet, gandiva, antman, superneurons, checkmate, capuchin, gist, echo, corner"
    assert run("reproduce").err == f"neaptide: name a paper, or all: {papers}\n"
    assert run("reproduce", "vdnn").code == 2


def test_figures_go_into_a_directory(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = run("reproduce", "zico", "--figure", tmp_path / "file")
    assert (outcome.code, outcome.err) == (
        2,
        f"neaptide: {tmp_path / 'file'} is a file; name a directory for the figures\n",
    )
