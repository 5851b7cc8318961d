"""The planners' papers on small steps: the command prints what the experiments compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.planners import PLANNERS
from neaptide.reproductions import laboratory
from neaptide.reproductions.networks import limits, superneurons_networks
from neaptide.reproductions.papers import capuchin, checkmate, echo, gist, superneurons
from neaptide.scenarios.sources import device_of
from neaptide.scenarios.trace_cache import TraceKey
from reproductions import HEADINGS, headings_of, reproduced
from steps import chain_step

PAPERS = ["superneurons", "checkmate", "capuchin", "gist", "echo"]
LAYERS = ["aten::convolution", "aten::relu_", "aten::max_pool2d_with_indices", "aten::linear"]
BACKWARD = ["aten::mm", "aten::threshold_backward", "aten::mm", "aten::mm"]


def estimate(wanted: TraceKey, _device: DeviceSpec) -> Trace:
    """A step whose first tensor is larger in models with longer names."""
    step = chain_step(
        [64_000 * len(wanted.model), *[256_000] * 3], names=LAYERS, backward_names=BACKWARD, seconds=[1e-6] * 4
    )
    return replace(step, name=wanted.model, batch=wanted.batch or 1)


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short steps in place of models, short chains, one network, and an empty cache."""
    monkeypatch.setattr(laboratory, "estimate_model", estimate)
    monkeypatch.setattr("neaptide.scenarios.trace_cache.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(checkmate, "LAYERS", (3, 5))
    monkeypatch.setattr(checkmate, "SHARES", (1.0, 0.75))
    monkeypatch.setattr(capuchin, "COMPARED", ("capuchin", "liveness"))  # the answer of `best` depends on time
    monkeypatch.setattr(superneurons, "NETWORKS", {"alexnet": limits.NETWORKS["alexnet"]})
    monkeypatch.setattr(superneurons, "deepest_resnet", lambda planner, _: 32 if planner is None else 50)


@pytest.fixture
def device(tmp_path: Path) -> Callable[[str], Path]:
    """A function that describes a device with the given memory in a file."""

    def write(memory: str) -> Path:
        path = tmp_path / "small.toml"
        path.write_text(
            f'name = "small"\nmemory = "{memory}"\nsms = 4\nflops = 1e12\nhalf_flops = 1e12\n'
            "bandwidth = 1e11\nlink_bandwidth = 1e10\n"
        )
        return path

    return write


def ours(values: dict[str, Any]) -> list[str]:
    return [each["ours"] for each in values["claims"]]


def verdicts(values: dict[str, Any]) -> list[str]:
    return [each["verdict"] for each in values["claims"]]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_prints_claims_goals_and_notes(run: Any, paper: str) -> None:
    text, values = reproduced(run, paper)
    assert headings_of(text) == HEADINGS
    assert all(values[mark] for mark in ("claims", "unknown", "differs"))
    for each in values["claims"]:
        start = [each["published"].split(" ")[0], each["source"], each["ours"].split(" ")[0]]
        assert any(all(word in line for word in start) for line in text.splitlines())
    for goal in values["goals"]:
        assert ("holds " if goal["holds"] else "FAILS ") + goal["says"].split(" ")[0] in text
    assert all(len(line) <= 100 for line in text.splitlines())


class TestSuperNeurons:
    def test_alexnets_figures_equal_the_papers_technique_by_technique(self, run: Any) -> None:
        _, values = reproduced(run, "superneurons")
        assert ours(values)[:6] == [
            *("2189.437", "1489.355", "1132.056"),  # the paper prints 1132.155
            *("993.018, 14 re-runs", "886.23, 23 re-runs", "886.23, 17 re-runs"),
        ]
        assert verdicts(values)[:6] == ["holds", "holds", "does not hold", "holds", "holds", "holds"]

    def test_a_figure_that_is_not_exact_does_not_hold(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        *others, last = superneurons.GOLDEN
        monkeypatch.setattr(superneurons, "GOLDEN", (*others, replace(last, reruns=last.reruns + 1)))
        _, values = reproduced(run, "superneurons")
        assert verdicts(values)[4:6] == ["holds", "does not hold"]

    def test_the_largest_batches_and_depths_are_those_of_the_named_device(
        self, run: Any, device: Callable[[str], Path]
    ) -> None:
        path = device("1GiB")
        _, values = reproduced(run, "superneurons", "--device", path)
        find = partial(limits.largest_batch, limits.NETWORKS["alexnet"], device=device_of(str(path)))
        [row] = values["tables"]["batches"]
        found = {name: find(planner) for name, planner in superneurons.GROWN_BY.items()}
        assert row == {"network": "alexnet", "reported": 1792, "liveness": find(None), **found}
        assert ours(values)[6:] == [str(row["superneurons"]), "50", "32"]
        assert values["goals"][0]["found"] == f"at least {row['superneurons'] / row['liveness']:.1f} times"

    def test_the_network_on_which_vdnn_goes_further_says_what_fills_the_memory(
        self, run: Any, device: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blocks = partial(superneurons_networks.resnet, (3, 2, 2, 2))
        monkeypatch.setattr(superneurons, "NETWORKS", {"resnet152": blocks})
        _, values = reproduced(run, "superneurons", "--device", device("4GiB"))
        [row] = values["tables"]["batches"]
        goal = values["goals"][1]
        assert row["superneurons"] < row["and joins"]
        assert goal["holds"] == (row["superneurons"] >= row["vdnn"])
        assert f"{row['superneurons']} against {row['vdnn']}; results of joins are " in goal["found"]
        assert f"with them offloaded too the batch is {row['and joins']}" in goal["found"]

    def test_a_device_on_which_no_network_fits_is_refused_in_one_line(
        self, run: Any, device: Callable[[str], Path]
    ) -> None:
        outcome = run("reproduce", "superneurons", "--device", device("100MiB"))
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err == "neaptide: none of alexnet fits small (100 MiB) at batch 16; name a larger device\n"


class TestCheckmate:
    def test_the_table_and_the_worst_ratio_are_those_of_the_chains(self, run: Any) -> None:
        _, values = reproduced(run, "checkmate")
        rows = list(checkmate.solve_chains((3, 5), (1.0, 0.75)))
        assert values["tables"]["chains"] == [
            {
                "graph": f"chain of {nodes}",
                "budget_share": row.budget_share,
                "optimal": row.optimal,
                "proven": row.proven,
                "rounded": row.rounded,
                "ratio": row.ratio,
            }
            for row, nodes in zip(rows, (7, 7, 11, 11), strict=True)
        ]
        assert ours(values) == [f"{max(row.ratio or 0 for row in rows):.3f}x"]
        assert values["goals"][0] == {**values["goals"][0], "found": "4 of 4", "holds": True}

    def test_a_chain_without_proof_fails_its_goal_and_is_not_counted_in_the_ratio(
        self, run: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        solved = checkmate.SolvedChain(name="chain of 7", budget_share=0.7, proven=True, optimal=1.2, rounded=1.26)
        ended = replace(solved, proven=False, optimal=1.2, rounded=2.4)
        exact = replace(solved, rounded=1.2)
        monkeypatch.setattr(checkmate, "solve_chains", lambda *_: iter([exact, solved, ended]))
        text, values = reproduced(run, "checkmate")
        assert ours(values) == ["1.050x"]
        assert [(goal["found"], goal["holds"]) for goal in values["goals"]] == [("2 of 3", False)]
        assert "no    2.40x       -" in text

    def test_there_is_no_ratio_without_a_proof(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        ended = checkmate.SolvedChain(name="chain of 7", budget_share=0.7, proven=False, optimal=None, rounded=None)
        monkeypatch.setattr(checkmate, "solve_chains", lambda *_: iter([ended]))
        _, values = reproduced(run, "checkmate")
        assert ours(values) == ["none"]
        assert verdicts(values) == ["cannot be judged"]
        assert [(goal["found"], goal["holds"]) for goal in values["goals"]] == [("0 of 1", False)]


class TestCapuchin:
    def test_the_ratio_is_that_of_the_largest_batches_found(self, run: Any, device: Callable[[str], Path]) -> None:
        path = device("8MiB")
        _, values = reproduced(run, "capuchin", "--device", path)
        spec = device_of(str(path))
        trace = estimate(TraceKey("bert-base", 32, "paper", False), spec)
        planners = {name: PLANNERS.make(name) for name in capuchin.COMPARED}
        expected = capuchin.largest_batches("bert-base", partial(capuchin.scaled, trace), planners, spec)
        found = values["tables"]["batches"]
        assert [row["planner"] for row in found] == ["", *capuchin.COMPARED]
        assert [(row["batch"], row["batch_ratio"], row["slowdown"]) for row in found] == [
            (row.batch, row.batch_ratio, row.slowdown) for row in expected
        ]
        assert found[1]["batch_ratio"] > 1
        assert ours(values) == [f"{found[1]['batch_ratio']:.2f}x"]
        assert found[1]["batch_ratio"] < capuchin.PUBLISHED_BERT_BATCH_RATIO
        assert verdicts(values) == ["does not hold"]

    def test_a_device_too_small_for_one_sample_is_refused_in_one_line(
        self, run: Any, device: Callable[[str], Path]
    ) -> None:
        outcome = run("reproduce", "capuchin", "--device", device("40KiB"))
        assert (outcome.code, outcome.out) == (2, "")
        said = "bert-base does not fit small (40.0 KiB) even at batch 1; name a larger device"
        assert outcome.err == f"neaptide: {said}\n"


class TestGist:
    def test_the_ratios_are_those_of_the_networks_with_reduced_precision(self, run: Any) -> None:
        _, values = reproduced(run, "gist")
        spec = device_of(gist.DEVICE)
        traces = {name: estimate(TraceKey(name, batch, "paper", False), spec) for name, batch in gist.MODELS.items()}
        expected = gist.encode_networks(traces, spec)
        rows = values["tables"]["networks"]
        assert [(row["network"], row["lossy"], row["tensors"]) for row in rows] == [
            (row.name, row.lossy, row.tensors) for row in expected
        ]
        for key in ("saved_ratio", "ephemeral_ratio", "slowdown"):
            assert [row[key] for row in rows] == [getattr(row, key) for row in expected]
        saved = [row.saved_ratio for row in expected if row.lossy]
        slowdown = mean(row.slowdown for row in expected if row.lossy)
        assert ours(values) == [f"{max(saved):.2f}x", f"{mean(saved):.2f}x", f"{slowdown:.2f}x"]
        assert [each == "holds" for each in verdicts(values)] == [max(saved) >= 2, mean(saved) >= 1.8, slowdown <= 1.04]

    def test_the_codecs_of_a_network_are_counted(self, run: Any) -> None:
        text, _ = reproduced(run, "gist")
        assert "1 bit, 2 half" in text


class TestEcho:
    def test_the_ratio_is_that_of_the_network_that_shrinks_most(self, run: Any) -> None:
        _, values = reproduced(run, "echo")
        spec = device_of(echo.DEVICE)
        traces = {name: estimate(TraceKey(name, batch, "paper", False), spec) for name, batch in echo.MODELS.items()}
        best = max(echo.footprints(traces, spec), key=lambda row: row.ratio)
        assert ours(values) == [f"{best.ratio:.2f}x ({best.name})"]
        assert verdicts(values) == ["does not hold"]


@pytest.mark.parametrize("paper", PAPERS)
def test_an_unknown_device_is_one_line(run: Any, paper: str) -> None:
    outcome = run("reproduce", paper, "--device", "V1000")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("neaptide: ")
    assert outcome.err.count("\n") == 1


def test_a_paper_without_figures_says_so_and_makes_no_directory(run: Any, tmp_path: Path) -> None:
    outcome = run("reproduce", "checkmate", "--figure", tmp_path / "figures")
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == "this experiment draws no figures"
    assert not (tmp_path / "figures").exists()
