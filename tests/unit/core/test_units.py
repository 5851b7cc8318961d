"""Bytes and seconds as people write them."""

from __future__ import annotations

import pytest

from neaptide.core.units import GIB, KIB, MIB, TIB, format_bytes, format_seconds, parse_bytes, parse_seconds


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("4096", 4096),
        ("4096b", 4096),
        ("2GiB", 2 * GIB),
        ("2Gi", 2 * GIB),
        ("2gib", 2 * GIB),
        ("2 GB", 2 * 10**9),
        ("2g", 2 * 10**9),
        ("1.5 MB", 1_500_000),
        (".5KiB", 512),
        ("1.KiB", KIB),
        ("1e3", 1000),
        ("1.5e-3 TiB", round(1.5e-3 * TIB)),
        ("  3 MiB\n", 3 * MIB),
    ],
)
def test_bytes_are_read_in_decimal_and_binary_units_of_any_case(text: str, amount: int) -> None:
    assert parse_bytes(text) == amount
    assert type(parse_bytes(text)) is int


@pytest.mark.parametrize(
    ("letter", "decimal", "binary"),
    [("k", 10**3, KIB), ("M", 10**6, MIB), ("G", 10**9, GIB), ("T", 10**12, TIB)],
)
def test_an_i_makes_a_unit_binary_and_the_b_may_be_left_out(letter: str, decimal: int, binary: int) -> None:
    assert parse_bytes(f"3{letter}") == parse_bytes(f"3{letter}B") == 3 * decimal
    assert parse_bytes(f"3{letter}i") == parse_bytes(f"3{letter}iB") == 3 * binary


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2.0),
        ("1.5s", 1.5),
        ("50ms", 0.05),
        ("50 MS", 0.05),
        ("3us", 3e-6),
        ("3\u00b5s", 3e-6),
        ("3\u03bcs", 3e-6),  # the Greek letter, as many keyboards have it
        ("7ns", 7e-9),
        ("2min", 120.0),
        ("1.5h", 5400.0),
    ],
)
def test_seconds_are_read_in_units_from_nanoseconds_to_hours(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "GiB",
        "-1",
        "+1",
        "1 2",
        "1GiBs",
        "1PiB",
        "1e",
        "1 e3",
        "1_000",
        "nan",
        "inf",
        "0x10",
        "٣GB",
        "5ms",
        ".",
    ],
)
def test_a_text_that_is_no_amount_of_memory_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an amount of memory; write it like 2GiB or 500MB$") as caught:
        parse_bytes(text)
    assert str(caught.value).startswith(repr(text))


@pytest.mark.parametrize("text", ["", "s", "-1s", "5GB", "1m", "1day", "1:30", "1e", "nan", "inf"])
def test_a_text_that_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration; write it like 50ms or 1.5s$") as caught:
        parse_seconds(text)
    assert str(caught.value).startswith(repr(text))


@pytest.mark.parametrize("text", ["1e400", "1e300TiB", "9223372036854775808", "8388608TiB", "1" * 400])
def test_an_amount_of_memory_that_64_bits_cannot_count_is_too_large(text: str) -> None:
    with pytest.raises(ValueError, match=r"is too large for an amount of memory$"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["1e400", "1e10s", "1e7h"])
def test_a_duration_whose_nanoseconds_64_bits_cannot_count_is_too_large(text: str) -> None:
    with pytest.raises(ValueError, match=r"is too large for a duration$"):
        parse_seconds(text)


def test_the_largest_amounts_below_the_limit_are_read() -> None:
    assert parse_bytes("8388607TiB") == 8388607 * TIB
    assert parse_seconds("9e9s") == 9e9


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1023.6, "1.00 KiB"),
        (KIB, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (999 * KIB, "999 KiB"),
        (1000 * KIB, "0.977 MiB"),
        (MIB - 1, "1.00 MiB"),
        (10 * MIB - 1, "10.0 MiB"),
        (12.34 * GIB, "12.3 GiB"),
        (16 * GIB, "16.0 GiB"),
        (5000 * TIB, "5000 TiB"),
        (-1536, "-1.50 KiB"),
    ],
)
def test_bytes_are_written_in_binary_units_with_three_digits(amount: float, text: str) -> None:
    assert format_bytes(amount) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (5e-10, "0.500 ns"),
        (1e-9, "1.00 ns"),
        (12.34e-3, "12.3 ms"),
        (999.4e-6, "999 us"),
        (999.6e-6, "1.00 ms"),
        (1.0, "1.00 s"),
        (599.0, "599 s"),
        (600.0, "10.0 min"),
        (36000.0, "10.0 h"),
        (-0.05, "-50.0 ms"),
    ],
)
def test_seconds_are_written_in_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
