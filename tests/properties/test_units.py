"""Amounts survive being written for people and read back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neaptide.core.units import format_bytes, format_seconds, parse_bytes, parse_seconds

_HALF_OF_THREE_DIGITS = 0.00501  # 1.005 may be written 1.00


@given(st.integers(0, 1 << 53))
def test_a_plain_whole_number_of_bytes_is_read_exactly(amount: int) -> None:
    assert parse_bytes(str(amount)) == amount


@given(st.integers(0, 1 << 62))
def test_formatted_bytes_read_back_to_three_digits(amount: int) -> None:
    assert parse_bytes(format_bytes(amount)) == pytest.approx(amount, rel=_HALF_OF_THREE_DIGITS)


@given(st.floats(1e-9, 9e9))
def test_formatted_seconds_read_back_to_three_digits(seconds: float) -> None:
    assert parse_seconds(format_seconds(seconds)) == pytest.approx(seconds, rel=_HALF_OF_THREE_DIGITS)


@given(st.integers(1024, (1 << 40) * 999))
def test_bytes_above_a_kibibyte_are_written_with_three_digits(amount: int) -> None:
    number, unit = format_bytes(amount).split(" ")
    assert unit in ("KiB", "MiB", "GiB", "TiB")
    assert len(number.replace(".", "").lstrip("0")) == 3


@given(st.floats(1e-9, 3e6))
def test_seconds_are_written_with_three_digits(seconds: float) -> None:
    number, unit = format_seconds(seconds).split(" ")
    assert unit in ("ns", "us", "ms", "s", "min", "h")
    assert re.fullmatch(r"0\.\d{3}|\d\.\d{2}|\d{2}\.\d|\d{3}|1000", number)


@given(st.integers(1, 1 << 62), st.integers(1, 1 << 62))
def test_formatting_keeps_the_order(one: int, other: int) -> None:
    smaller, larger = sorted((one, other))
    assert parse_bytes(format_bytes(smaller)) <= parse_bytes(format_bytes(larger))


@given(st.text(max_size=12))
def test_any_text_is_an_amount_or_a_one_line_value_error(text: str) -> None:
    for parse in (parse_bytes, parse_seconds):
        try:
            assert 0 <= parse(text) < 2**63
        except ValueError as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017 - both outcomes are right
