"""A profile as the terminal shows it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from builders import Op, Tensor, make_trace, training_trace
from neaptide.core.device import CATALOGUE, DeviceSpec
from neaptide.core.traces.trace import Kind, Phase, Trace
from neaptide.core.units import GIB
from neaptide.reporting.terminal.profile_summary import print_profile, title, warnings


def printed(trace: Trace, width: int = 120, device: DeviceSpec | None = None, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    print_profile(trace, Console(file=file, width=width), device)
    file.flush()
    return raw.getvalue().decode(encoding)


def test_the_title_says_what_was_profiled() -> None:
    assert title(training_trace()).plain == "tiny, batch 4, training, estimated for V100-16GB"


def test_the_title_says_whether_the_trace_was_measured() -> None:
    assert title(replace(training_trace(), device="cpu", estimated=False)).plain.endswith("measured on cpu")


def test_the_title_omits_an_unknown_batch() -> None:
    trace = make_trace([Op(phase=Phase.INFERENCE)], batch=0, device="cpu", estimated=False)
    assert title(trace).plain == "tiny, inference, measured on cpu"
    assert "samples/s" not in printed(trace)


def test_the_numbers_are_those_of_the_trace() -> None:
    lines = [" ".join(line.split()) for line in printed(training_trace(asynchronous=False)).splitlines()]
    assert "persistent 100 B parameter 100 B" in lines
    assert "ephemeral 157 B comes and goes within an iteration" in lines
    assert "peak 257 B at 3.02 ms in aten.mm of layer" in lines
    assert "step time 8.02 ms 499 samples/s" in lines
    assert "light ops 25.0% of the device time; they leave room for other jobs" in lines
    assert "ops 4 forward 2, backward 1, optimizer 1" in lines


def test_the_ten_largest_tensors_are_listed_largest_first() -> None:
    trace = make_trace([Op()], [Tensor(bytes=size, born=0, died=0, label=f"layer{size}.") for size in range(1, 31)])
    text = printed(trace)
    order = [size for size in range(30, 0, -1) if f"layer{size}." in text]
    assert order == list(range(30, 20, -1))
    assert text.index("layer30.") < text.index("layer21.")


def test_a_tensor_shows_its_kind_layout_and_life() -> None:
    ops = [Op(module=f"block{i}", seconds=1e-3, writes=[1] if i == 2 else []) for i in range(4)]
    tensors = [
        Tensor(bytes=64, born=-1, died=4, kind=Kind.PARAMETER, label="block0.weight", layout="float32[4, 4]"),
        Tensor(bytes=32, born=2, died=2, label="", layout="float32[8]"),
    ]
    lines = printed(make_trace(ops, tensors)).splitlines()
    weight = next(line for line in lines if "block0.weight" in line)
    assert weight.split() == ["64", "B", "parameter", "━" * 16, "always", "block0.weight", "float32[4,", "4]"]
    other = next(line for line in lines if "float32[8]" in line)
    assert other.split() == ["32", "B", "temporary", "········━━━━····", "1.00", "ms", "block2", "float32[8]"]


def test_names_that_look_like_markup_are_printed_unchanged() -> None:
    text = printed(make_trace([Op()], [Tensor(bytes=1, born=0, died=0, label="[bold]x[/]", layout="float32[2]")]))
    assert "[bold]x[/]" in text
    assert "float32[2]" in text


def test_an_ascii_terminal_gets_ascii_characters() -> None:
    assert printed(training_trace(), encoding="ascii").isascii()


@pytest.mark.parametrize("width", [50, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, printed(training_trace(), width).splitlines())) <= width


def test_a_warning_says_that_a_trace_does_not_fit_its_device() -> None:
    trace = make_trace([Op()], [Tensor(bytes=25 * GIB, born=0, died=0)])
    expected = "Does not fit: needs 25.0 GiB, V100-16GB has 16.0 GiB, 9.00 GiB too little."
    assert list(warnings(trace, CATALOGUE["V100-16GB"])) == [expected]
    assert expected in printed(trace)
    assert "fit" not in printed(replace(trace, device="A100-40GB"))


def test_a_device_that_is_not_in_the_catalogue_can_be_given() -> None:
    mine = replace(CATALOGUE["V100-16GB"], name="mine", memory_bytes=200)
    assert "mine has 200 B" in printed(replace(training_trace(), device="mine"), device=mine)


def test_a_warning_says_that_iterations_differ() -> None:
    assert "differ; this one has the highest peak: op 3 is long." in printed(
        replace(training_trace(), variation="op 3 is long")
    )


def test_the_text_of_a_trace_cannot_control_the_terminal() -> None:
    tensors = [Tensor(bytes=1, born=0, died=0, label="a\x1b]0;b\x07", layout="\x1b[2J")]
    evil = make_trace([Op(name="\x1b[1m", module="\r")], tensors, name="\x1b[2J", device="x\ny", variation="\x1b[0m")
    assert not {"\x1b", "\r", "\x07"} & set(printed(evil))


def test_a_tensor_that_dies_before_the_first_op_can_be_shown() -> None:
    text = printed(make_trace([Op(seconds=1.0)], [Tensor(bytes=8, born=-1, died=-1, label="batch")]))
    assert "━··············· 0 s" in text
