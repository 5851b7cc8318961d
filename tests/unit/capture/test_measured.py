"""What a measured trace says of a program, checked on programs whose ops and tensors are known."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from neaptide import measure
from neaptide.capture.recording.recorder import Recorder
from neaptide.capture.session import CaptureError
from neaptide.core.traces.trace import Kind, Phase, Trace


def ops(trace: Trace, phase: Phase | None = None) -> list[str]:
    return [trace.ops.name[i] for i in range(len(trace.ops)) if phase is None or trace.ops.phase[i] == phase]


def tensors(trace: Trace, kind: Kind) -> list[str]:
    return sorted(trace.tensors.layout[i] for i in range(len(trace.tensors)) if trace.tensors.kind[i] == kind)


def trainer(model: nn.Module, forward: Callable[[], Tensor], **options: object) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True, **options)  # type: ignore[arg-type]

    def step() -> None:
        optimizer.zero_grad()
        forward().backward()
        optimizer.step()

    return step


def test_a_tensor_is_held_from_the_op_that_makes_it_to_the_last_before_it_is_dropped() -> None:
    def step() -> None:
        first = torch.ones(100)  # op 0
        second = first * 2  # op 1
        del first
        third = second + 1  # op 2
        third.sum()  # op 3

    trace = measure(step, timed=0)
    assert ops(trace) == ["aten::ones", "aten::mul", "aten::add", "aten::sum"]
    vectors = trace.tensors.bytes == 400
    assert trace.tensors.born[vectors].tolist() == [0, 1, 2]
    assert trace.tensors.died[vectors].tolist() == [1, 3, 3]
    assert trace.held_bytes.tolist() == [400, 800, 800, 804]


def test_views_share_a_storage_and_in_place_ops_allocate_nothing() -> None:
    def step() -> None:
        base = torch.zeros(10, 10)
        base.view(-1)[3:].add_(1)
        base.t()[2].mul_(2)
        base.relu_()

    trace = measure(step, timed=0)
    assert ops(trace) == ["aten::zeros", "aten::add_", "aten::mul_", "aten::relu_"]
    assert trace.tensors.bytes.tolist() == [400]


def test_every_tensor_has_its_kind() -> None:
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU())
    step = trainer(model, lambda: model(torch.rand(16, 4)).sum(), momentum=0.9)
    trace = measure(step, timed=0)
    assert tensors(trace, Kind.PARAMETER) == ["float32[8, 4]", "float32[8]", "float32[8]"]
    assert tensors(trace, Kind.BUFFER) == ["float32[8]", "float32[8]", "int64[]"]
    assert tensors(trace, Kind.GRADIENT) == tensors(trace, Kind.OPTIMIZER) == tensors(trace, Kind.PARAMETER)
    assert tensors(trace, Kind.INPUT) == ["float32[16, 4]"]
    # What the batch norm and the ReLU keep: the linear layer's output, two statistics, the ReLU's output.
    assert {"float32[16, 8]", "float32[8]"} < set(tensors(trace, Kind.ACTIVATION))
    persistent = trace.tensors.died == len(trace.ops)
    kept = {Kind(kind) for kind in trace.tensors.kind[persistent]}
    assert kept == {Kind.PARAMETER, Kind.BUFFER, Kind.OPTIMIZER}


def test_saved_tensors_are_those_that_autograd_keeps() -> None:
    weight = nn.Parameter(torch.rand(8))

    def step() -> None:
        kept = torch.rand(8)
        (weight * kept + torch.rand(8)).sum().backward()
        weight.grad = None

    trace = measure(step, timed=0)
    saved = [i for i in range(len(trace.tensors)) if trace.tensors.saved[i]]
    assert [int(trace.tensors.born[i]) for i in saved] == [0]  # the factor, and not the summand


def test_ops_have_module_paths_in_forward_and_backward() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4)))
    trace = measure(trainer(model, lambda: model(torch.rand(2, 4)).sum()), timed=0)
    for phase, name in ((Phase.FORWARD, "aten::addmm"), (Phase.BACKWARD, "aten::mm")):
        found = {
            trace.ops.module[i]
            for i in range(len(trace.ops))
            if trace.ops.phase[i] == phase and trace.ops.name[i] == name
        }
        assert found == {"0", "1.1"}
    assert "1.1.weight" in trace.tensors.label.words


def test_phases_are_right_with_clipping_and_zeroing() -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)

    def step() -> None:
        model(torch.rand(2, 4)).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    trace = measure(step, timed=0)
    assert set(trace.ops.phase) == {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER}
    assert "aten::_foreach_zero_" in ops(trace, Phase.OPTIMIZER)
    assert "aten::linalg_vector_norm" in ops(trace, Phase.OPTIMIZER)
    gradients = trace.tensors.kind == Kind.GRADIENT
    assert (trace.tensors.died[gradients] == len(trace.ops)).all()  # kept, so they are persistent


def test_gradient_accumulation_is_one_iteration_and_adds_in_place() -> None:
    model = nn.Linear(4, 4, bias=False)

    def forward() -> Tensor:
        model(torch.rand(2, 4)).sum().backward()
        return model(torch.rand(2, 4)).sum()

    trace = measure(trainer(model, forward), timed=0)
    assert ops(trace, Phase.FORWARD).count("aten::mm") == 2
    assert ops(trace, Phase.BACKWARD).count("aten::add_") == 1
    assert tensors(trace, Kind.GRADIENT) == ["float32[4, 4]"]


def test_checkpointed_activations_are_recomputed_in_the_backward_pass() -> None:
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    data = torch.rand(32, 16)

    def run(reentrant: bool | None) -> Trace:
        def forward() -> Tensor:
            if reentrant is None:
                return model(data).sum()
            return checkpoint(model, data.clone().requires_grad_(), use_reentrant=reentrant).sum()

        return measure(trainer(model, forward), timed=0)

    plain = run(None)
    for reentrant in (True, False):
        trace = run(reentrant)
        assert ops(trace, Phase.BACKWARD).count("aten::tanh") == 2
        assert "aten::tanh" not in ops(plain, Phase.BACKWARD)
        kept = [trace.tensors.bytes[trace.tensors.kind == Kind.ACTIVATION].sum() for trace in (trace, plain)]
        assert kept[0] < kept[1]


def test_autocast_casts_are_ops() -> None:
    model = nn.Linear(16, 16)

    def forward() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(torch.rand(4, 16)).float().sum()

    trace = measure(trainer(model, forward))
    assert "aten::_to_copy" in ops(trace)
    assert "bfloat16[16, 16]" in trace.tensors.layout.words


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inference_keeps_no_activation(mode: Callable[[], torch.no_grad]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def step() -> None:
        with mode():
            model(torch.rand(2, 4))

    trace = measure(step)
    assert set(trace.ops.phase) == {Phase.INFERENCE}
    assert not (trace.tensors.kind == Kind.ACTIVATION).any()
    assert not trace.tensors.saved.any()


def test_a_step_may_have_several_optimizers() -> None:
    networks = [nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)]
    optimizers = [torch.optim.Adam(network.parameters(), foreach=True) for network in networks]

    def step() -> None:
        for network, optimizer in zip(networks, optimizers, strict=True):
            optimizer.zero_grad()
            network(torch.rand(2, 4)).sum().backward()
            optimizer.step()

    trace = measure(step)
    assert len(tensors(trace, Kind.OPTIMIZER)) == 2 * 3  # two moments and a step counter each
    assert trace.persistent_bytes == 2 * (3 * 64 + 4) + 64  # and the second network's gradient


def test_changing_shapes_are_reported_and_the_largest_iteration_is_the_trace() -> None:
    sizes = iter([10, 10, 30, 20, 10])
    trace = measure(lambda: torch.ones(next(sizes)) + 1, iterations=3, timed=0)
    assert "10" in trace.variation or "30" in trace.variation
    assert trace.peak_bytes == 2 * 30 * 4


def test_capturing_twice_gives_the_same_ids() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    step = trainer(model, lambda: model(torch.rand(3, 4)).sum(), momentum=0.9)
    first, second = (measure(step, timed=0) for _ in range(2))
    assert ops(first) == ops(second)
    for column in ("bytes", "born", "died", "kind"):
        assert getattr(first.tensors, column).tolist() == getattr(second.tensors, column).tolist()
    assert first.ops.reads.items.tolist() == second.ops.reads.items.tolist()


def test_recording_changes_no_number() -> None:
    def train(capture: bool) -> list[Tensor]:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
        step = trainer(model, lambda: F.cross_entropy(model(torch.rand(8, 4)), torch.randint(2, (8,))))
        if capture:
            measure(step, iterations=2, timed=1)  # 4 + 3 iterations
        else:
            for _ in range(7):
                step()
        return [value.clone() for value in model.state_dict().values()]

    for plain, captured in zip(train(False), train(True), strict=True):
        assert torch.equal(plain, captured)


def test_recording_keeps_nothing_alive() -> None:
    dead = []

    def step() -> None:
        made = torch.ones(1000)
        dead.append(weakref.ref(made))
        made.sum()

    measure(step)
    assert all(reference() is None for reference in dead)


def test_a_step_that_raises_leaves_nothing_behind() -> None:
    model = nn.Linear(2, 2)
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1
        model(torch.rand(1, 2))
        if calls % 3 == 2:
            raise RuntimeError("the step's own error")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="the step's own error"):
            measure(step)
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    assert measure(lambda: model(torch.rand(1, 2)).sum()).variation == ""


def test_a_step_without_ops_is_an_error() -> None:
    with pytest.raises(CaptureError, match="no operation on cpu was seen"):
        measure(lambda: None)


def test_times_add_up_to_the_step_and_every_op_has_one() -> None:
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
    trace = measure(trainer(model, lambda: model(torch.rand(32, 64)).sum()), timed=3)
    assert (trace.ops.seconds > 0).all()
    assert trace.seconds == pytest.approx(trace.ops.seconds.sum() + trace.ops.host_seconds.sum())


def test_sparse_gradients_and_custom_functions_are_recorded() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(_: object, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(_: object, gradient: Tensor) -> Tensor:
            return gradient * 2

    table = nn.Embedding(100, 4, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        Double.apply(table(torch.randint(100, (5,)))).sum().backward()
        optimizer.step()

    trace = measure(step)
    trace.check()
    assert ops(trace, Phase.BACKWARD).count("aten::mul") == 1


def test_the_recorder_ignores_other_devices() -> None:
    recorder = Recorder(torch.device("meta"))
    with recorder:
        torch.ones(3) + 1
        torch.ones(3, device="meta") + 1
    assert [kernel.name for kernel in recorder.log.kernels] == ["aten::ones", "aten::add"]
