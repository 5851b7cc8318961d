"""Recurrent networks on the device give the CPU's numbers, bit by bit: outputs, states and gradients."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

KINDS: dict[str, Callable[..., nn.RNNBase]] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *sizes, **more: nn.RNN(*sizes, nonlinearity="relu", **more),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "both directions": {"bidirectional": True},
    "layers": {"num_layers": 3, "dropout": 0.3},
    "layers in both directions": {"num_layers": 2, "dropout": 0.3, "bidirectional": True},
    "batch first": {"batch_first": True, "num_layers": 2},
    "no bias": {"bias": False, "bidirectional": True},
    "double": {"dtype": torch.float64},
    "bfloat16": {"dtype": torch.bfloat16, "num_layers": 2, "bidirectional": True},
    "half": {"dtype": torch.float16},
}
SIZES = {"small": (5, 3, 7, 9), "large": (24, 20, 96, 128)}  # steps, batch, input and hidden size
LENGTHS = [9, 6, 6, 2, 1]


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, PackedSequence):
        yield value.data
    elif isinstance(value, tuple):
        for each in value:
            yield from tensors_in(each)


def numbers(network: nn.Module, run: Callable[[nn.Module], Any], inputs: list[Tensor]) -> list[Tensor]:
    """Everything that a forward and a backward pass give."""
    torch.manual_seed(1)  # dropout
    results = list(tensors_in(run(network)))
    weights = [parameter for parameter in network.parameters() if parameter.requires_grad]
    if torch.is_grad_enabled():
        loss = sum((result.float() * result.float()).sum() + result.float().sum() for result in results)
        assert isinstance(loss, Tensor)
        loss.backward()
        results += [each.grad for each in (*weights, *inputs) if each.grad is not None]
    return [result.detach().cpu() for result in results]


def check_equal(
    make: Callable[[], nn.Module], make_inputs: Callable[[], list[Tensor]], run: Callable[..., Any]
) -> None:
    """Compare the device with the CPU. `run` gets the network and the inputs."""
    found = []
    for device in ("cpu", "soft"):
        torch.manual_seed(0)
        network = make().to(device)
        inputs = [tensor.detach().to(device).requires_grad_(tensor.is_floating_point()) for tensor in make_inputs()]
        found.append(numbers(network, lambda network, inputs=inputs: run(network, *inputs), inputs))  # type: ignore[misc]
    host, soft = found
    assert len(host) == len(soft) > 0
    for index, (expected, actual) in enumerate(zip(host, soft, strict=True)):
        assert actual.dtype == expected.dtype
        assert actual.equal(expected), f"result {index} differs by {(actual.double() - expected.double()).abs().max()}"


def sequence(sizes: tuple[int, int, int, int], options: dict[str, Any]) -> Tensor:
    steps, batch, features, _ = sizes
    value = torch.randn(steps, batch, features, dtype=options.get("dtype"))
    return value.transpose(0, 1).contiguous() if options.get("batch_first") else value


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_recurrent_network_is_bit_identical_to_the_cpu(kind: str, option: str, size: str) -> None:
    options, sizes = OPTIONS[option], SIZES[size]
    check_equal(
        lambda: KINDS[kind](*sizes[2:], **options),
        lambda: [sequence(sizes, options)],
        lambda network, value: network(value),
    )


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_given_states_and_strided_inputs_change_nothing(kind: str, grad: bool) -> None:
    directions, layers, batch, hidden = 2, 2, 3, 9
    states = 2 if kind == "lstm" else 1

    def inputs() -> list[Tensor]:
        value = torch.randn(5, 7, batch).transpose(1, 2)  # features lie furthest apart, as with channels last
        return [value, *(torch.randn(batch, directions * layers, hidden).transpose(0, 1) for _ in range(states))]

    def run(network: nn.Module, value: Tensor, *state: Tensor) -> Any:
        strided = value.transpose(1, 2).contiguous().transpose(1, 2)
        return network(strided, state if len(state) > 1 else state[0])

    with torch.set_grad_enabled(grad):
        check_equal(lambda: KINDS[kind](7, hidden, num_layers=layers, bidirectional=True), inputs, run)


@pytest.mark.filterwarnings("ignore:LSTM with projections")  # which is what the CPU says
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_an_lstm_with_projections_is_bit_identical_to_the_cpu(layers: int, both: bool) -> None:
    check_equal(
        lambda: nn.LSTM(7, 9, num_layers=layers, bidirectional=both, proj_size=4),
        lambda: [torch.randn(5, 3, 7)],
        lambda network, value: network(value),
    )


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "projected"])
def test_packed_sequences_are_bit_identical_to_the_cpu(kind: str, both: bool) -> None:
    more = {"proj_size": 4} if kind == "projected" else {}
    make = KINDS["lstm" if kind == "projected" else kind]

    def run(network: nn.Module, value: Tensor) -> Any:
        output, states = network(pack_padded_sequence(value, torch.tensor(LENGTHS)))
        return pad_packed_sequence(output)[0], states

    check_equal(
        lambda: make(7, 9, num_layers=2, dropout=0.3, bidirectional=both, **more),
        lambda: [torch.randn(max(LENGTHS), len(LENGTHS), 7)],
        run,
    )


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_a_cell_that_the_program_drives_is_bit_identical_to_the_cpu(cell: Callable[..., nn.Module]) -> None:
    def run(network: nn.Module, value: Tensor) -> Any:
        state = None
        for step in value.unbind(0):
            fed_back = step if state is None else step + (state[0] if isinstance(state, tuple) else state)
            state = network(fed_back, state)
        return state

    check_equal(lambda: cell(9, 9), lambda: [torch.randn(6, 3, 9)], run)


def test_the_second_derivative_of_an_lstm_is_bit_identical_to_the_cpu() -> None:
    found = []
    for device in ("cpu", "soft"):
        torch.manual_seed(0)
        network = nn.LSTM(4, 5).to(device)
        value = torch.randn(3, 2, 4).to(device).requires_grad_()
        (slope,) = torch.autograd.grad(network(value)[0].square().sum(), value, create_graph=True)
        slope.square().sum().backward()
        found.append([parameter.grad.cpu() for parameter in network.parameters()])  # type: ignore[union-attr]
    assert all(actual.equal(expected) for actual, expected in zip(*found, strict=True))


AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


@pytest.mark.skipif(all(os.environ.get(name) == value for name, value in AVX2.items()), reason="this is that run")
def test_recurrent_networks_are_bit_identical_to_the_cpu_without_avx_512() -> None:
    tests = [f"{__file__}::{name}" for name in globals() if name.startswith("test_")]
    models = os.path.join(os.path.dirname(__file__), "test_training.py")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    command += [f"{models}::test_training_a_recurrent_model_is_bit_identical_to_the_cpu"]
    done = subprocess.run(command, env={**os.environ, **AVX2}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
