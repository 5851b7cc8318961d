"""PyTorch's own operator samples, forward and backward, against the CPU.

An operator that is listed in known_failures.toml must fail, with its reason; any other must not.
"""

from __future__ import annotations

import sys
import tomllib
import unittest
import warnings
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import torch

# torch's samples import expecttest for a base class that these tests do not use.
sys.modules.setdefault("expecttest", cast("ModuleType", SimpleNamespace(TestCase=unittest.TestCase)))

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

SAMPLES = 4
KNOWN: dict[str, str] = tomllib.loads((Path(__file__).parent / "known_failures.toml").read_text())["operators"]
OPERATORS = [op for op in op_db if torch.float32 in op.supported_dtypes("cpu")]

pytestmark = pytest.mark.filterwarnings("ignore")


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def place(value: Any, device: str) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            pytest.skip("not a strided operator")
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device(device)
    return value


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def assert_equal(actual: Any, expected: Any) -> None:
    for got, want in zip(tensors(actual), tensors(expected), strict=True):
        if want.layout != torch.strided:
            continue
        rtol, atol = (1e-2, 1e-2) if want.dtype == torch.bfloat16 else (1e-4, 1e-5)
        torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=rtol, atol=atol, equal_nan=True)


def gradients(output: Any, inputs: Any) -> list[torch.Tensor | None]:
    sums = [leaf.sum() for leaf in tensors(output) if leaf.requires_grad and leaf.is_floating_point()]
    leaves = [leaf for leaf in tensors(inputs) if leaf.requires_grad]
    if not sums or not leaves:
        return []
    return list(torch.autograd.grad(sums, leaves, allow_unused=True))


def check(op: Any, sample: Any) -> None:
    """Compare one sample on both devices; a sample that the CPU itself refuses is skipped."""
    given = (sample.input, sample.args, sample.kwargs)
    host = tree_map(lambda value: place(value, "cpu"), given)
    device = tree_map(lambda value: place(value, "soft"), given)
    torch.manual_seed(5)
    try:
        expected = op(host[0], *host[1], **host[2])
        expected_gradients = gradients(expected, host) if op.supports_autograd else []
    except Exception:
        return
    torch.manual_seed(5)
    actual = op(device[0], *device[1], **device[2])
    torch.soft.synchronize()
    if op.name.startswith(("empty", "new_empty")):  # no contents to compare
        assert [leaf.shape for leaf in tensors(actual)] == [leaf.shape for leaf in tensors(expected)]
        return
    assert_equal(actual, expected)
    if expected_gradients:
        actual_gradients = gradients(actual, device)
        torch.soft.synchronize()
        assert_equal(actual_gradients, expected_gradients)


@pytest.mark.parametrize("op", OPERATORS, ids=name_of)
def test_operator_equals_the_cpu(op: Any) -> None:
    torch.manual_seed(0)
    samples = list(islice(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd), SAMPLES))
    known = KNOWN.get(name_of(op))
    try:
        for sample in samples:
            check(op, sample)
    except Exception:
        try:
            torch.soft.synchronize()
        except Exception as late:
            warnings.warn(str(late), stacklevel=1)
        if known is None:
            raise
        pytest.xfail(known)
    assert known is None, f"{name_of(op)} works: take it out of known_failures.toml"


BFLOAT16 = {
    "add", "mul", "sub", "div", "exp", "sigmoid", "tanh", "sum", "mean", "matmul", "mm", "bmm", "addmm", "softmax",
    "log_softmax", "nn.functional.linear", "nn.functional.conv2d", "nn.functional.layer_norm", "nn.functional.gelu",
    "nn.functional.relu", "nn.functional.batch_norm", "nn.functional.embedding", "nn.functional.max_pool2d",
    "nn.functional.scaled_dot_product_attention", "nn.functional.cross_entropy", "cat", "where", "clamp",
}  # fmt: skip


@pytest.mark.parametrize("op", [op for op in OPERATORS if op.name in BFLOAT16], ids=name_of)
def test_operator_equals_the_cpu_in_bfloat16(op: Any) -> None:
    if torch.bfloat16 not in op.supported_dtypes("cpu"):
        pytest.skip("the CPU has no bfloat16 kernel")
    torch.manual_seed(0)
    for sample in islice(op.sample_inputs("cpu", torch.bfloat16, requires_grad=op.supports_autograd), SAMPLES):
        check(op, sample)


def test_at_most_one_in_a_hundred_operators_is_a_known_failure() -> None:
    names = {name_of(op) for op in OPERATORS}
    assert set(KNOWN) <= names
    assert len(KNOWN) <= len(OPERATORS) / 100
