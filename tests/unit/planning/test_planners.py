"""The budget is kept by every planner, and facts about vDNN, liveness, best and frontiers, on networks of layers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from neaptide.core.control.job import Job
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.analysis.layer_kinds import LayerKind, kind_of
from neaptide.planning.apply import apply, summary_of
from neaptide.planning.frontier import frontier
from neaptide.planning.plan import CannotFitError, Plan, Planner, Return
from neaptide.planning.planners import PLANNERS, best, liveness, superneurons, vdnn
from neaptide.reproductions.networks.limits import deepest_resnet, largest_batch, live_trace
from neaptide.reproductions.networks.superneurons_networks import RESNETS, alexnet, resnet, vgg16

DEVICE = find_device("K40")
OURS = ("vdnn-conv", "vdnn-all", "vdnn", "superneurons", "best")


def quick(name: str) -> Planner:
    if name != "best":
        return PLANNERS.make(name)
    return lambda trace, budget_bytes, device: best.plan(trace, budget_bytes, device, time_limit_seconds=0.3)


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    made = (alexnet(64), vgg16(8), resnet(RESNETS[50], 8))
    return {network.name: live_trace(network, DEVICE) for network in made}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("network", ["alexnet", "vgg16", "resnet50"])
def test_a_planner_keeps_the_budget_or_says_how_low_it_can_go(
    traces: dict[str, Trace], name: str, network: str
) -> None:
    trace, planner = traces[network], quick(name)
    for share in (0.8, 0.6, 0.4):
        budget = int(share * trace.peak_bytes)
        refusal = None
        try:
            plan = planner(trace, budget, DEVICE)
        except CannotFitError as error:
            refusal = error
        if refusal is not None:
            assert lower_bound(trace) <= refusal.lowest_bytes <= trace.peak_bytes
            assert budget < refusal.lowest_bytes
            continue
        planned = apply(trace, plan, DEVICE)
        planned.check()
        assert planned.peak_bytes <= budget
        assert plan.planner == name


@pytest.mark.parametrize("network", ["alexnet", "vgg16", "resnet50"])
def test_best_fits_where_the_planners_it_starts_from_fit_and_is_as_fast(traces: dict[str, Trace], network: str) -> None:
    trace = traces[network]
    budget = int(0.7 * trace.peak_bytes)
    found = summary_of(trace, best.plan(trace, budget, DEVICE, time_limit_seconds=1.0), DEVICE)
    for name in best.KNOWN:
        try:
            other = summary_of(trace, PLANNERS.make(name)(trace, budget, DEVICE), DEVICE)
        except CannotFitError:
            continue
        assert found.seconds <= other.seconds * (1 + 1e-9), name


def test_a_trace_that_fits_gets_a_plan_without_gaps(traces: dict[str, Trace]) -> None:
    trace = traces["alexnet"]
    for name in ("vdnn", "superneurons", "best"):
        assert PLANNERS.make(name)(trace, trace.peak_bytes, DEVICE).gaps == ()


def test_vdnn_offloads_the_inputs_of_convolutions_or_of_all_layers(traces: dict[str, Trace]) -> None:
    trace = traces["alexnet"]
    conv, every = vdnn.offloads(trace, conv=True), vdnn.offloads(trace)
    assert {trace.tensors.label[gap.tensor].split()[0] for gap in conv} == {"pooling", "activation"}
    assert len(conv) == 4  # the first convolution reads the batch
    assert len(every) == len(trace.ops) // 2 - 2  # no backward op reads the last two results
    assert all(gap.back is Return.SWAP and gap.fetch is not None for gap in every)


def test_vdnn_dyn_offloads_convolutions_if_that_fits_and_else_all_layers(traces: dict[str, Trace]) -> None:
    trace = traces["vgg16"]
    conv, every = (planner(trace, 1 << 40, DEVICE) for planner in (vdnn.plan_conv, vdnn.plan_all))
    lowest = {name: _lowest(PLANNERS.make(name), trace) for name in ("vdnn-conv", "vdnn-all")}
    assert lowest["vdnn-all"] < lowest["vdnn-conv"]
    assert len(vdnn.plan(trace, lowest["vdnn-conv"], DEVICE).gaps) == len(conv.gaps)
    assert len(vdnn.plan(trace, lowest["vdnn-all"], DEVICE).gaps) == len(every.gaps)


def _lowest(planner: Planner, trace: Trace) -> int:
    with pytest.raises(CannotFitError) as caught:
        planner(trace, 1, DEVICE)
    return caught.value.lowest_bytes


def test_liveness_changes_nothing_in_a_trace_that_has_it(traces: dict[str, Trace]) -> None:
    assert liveness.plan(traces["alexnet"], 1 << 40, DEVICE).gaps == ()


def test_a_frontier_trades_bytes_for_seconds_and_its_traces_are_a_jobs_alternatives(traces: dict[str, Trace]) -> None:
    trace = traces["resnet50"]
    points = frontier(trace, DEVICE, [superneurons.plan, vdnn.plan])
    assert points[0].trace is trace
    assert len(points) > 3
    assert all(a.seconds <= b.seconds and a.peak_bytes > b.peak_bytes for a, b in pairwise(points))
    job = Job(name="job", trace=trace, alternatives=tuple(point.trace for point in points[1:]))
    assert min(each.peak_bytes for each in job.alternatives) < 0.6 * trace.peak_bytes


def test_an_ops_name_tells_its_kind_of_layer() -> None:
    assert kind_of("aten::convolution") is LayerKind.CONVOLUTION
    assert kind_of("aten::convolution_backward") is LayerKind.CONVOLUTION
    assert kind_of("aten::addmm") is LayerKind.FULLY_CONNECTED
    assert kind_of("aten::_log_softmax") is LayerKind.SOFTMAX
    assert kind_of("aten::native_batch_norm") is LayerKind.NORMALIZATION
    assert kind_of("aten::comm") is LayerKind.OTHER
    assert kind_of("layer::fully_connected") is LayerKind.FULLY_CONNECTED


def test_a_planner_makes_larger_batches_and_deeper_networks_fit() -> None:
    small = find_device("K40")
    alone, planned = (largest_batch(vgg16, planner, small, step=32) for planner in (None, superneurons.plan))
    assert 0 < alone < planned
    empty = Plan(planner="none")  # a planner that does nothing gains nothing
    assert largest_batch(vgg16, lambda trace, budget, _: _only_if_fits(trace, budget, empty), small, step=32) == alone
    assert deepest_resnet(None, small, batch=64) == 0  # not even the shallowest network fits


def _only_if_fits(trace: Trace, budget_bytes: int, plan: Plan) -> Plan:
    if trace.peak_bytes > budget_bytes:
        raise CannotFitError("none", budget_bytes, trace.peak_bytes, 0)
    return plan
