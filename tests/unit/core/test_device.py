"""What a device can do: the catalogue, finding in it, and devices described in TOML."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neaptide.core.device import CATALOGUE, DeviceSpec, find_device, parse_device
from neaptide.core.units import GIB

V100 = CATALOGUE["V100-16GB"]


class TestCatalogue:
    """The devices of the papers, and current ones."""

    def test_names_are_unique_however_they_are_written(self) -> None:
        plain = [name.lower().replace("-", "") for name in CATALOGUE]
        assert len(set(plain)) == len(CATALOGUE)
        assert all(name == spec.name for name, spec in CATALOGUE.items())

    def test_the_catalogue_and_its_devices_cannot_be_changed(self) -> None:
        with pytest.raises(TypeError):
            CATALOGUE["mine"] = V100  # type: ignore[index]
        with pytest.raises(AttributeError):
            V100.sms = 1  # type: ignore[misc]

    def test_figures_are_in_plain_bytes_and_flops(self) -> None:
        assert (V100.memory_bytes, V100.sms) == (16 * GIB, 80)
        assert (V100.flops, V100.half_flops) == (15.7e12, 125e12)
        assert (V100.bandwidth, V100.link_bandwidth) == (900e9, 12e9)

    @pytest.mark.parametrize("spec", CATALOGUE.values(), ids=lambda spec: spec.name)
    def test_a_device_is_plausible(self, spec: DeviceSpec) -> None:
        assert spec.flops <= spec.matrix_flops <= spec.half_flops
        assert spec.link_bandwidth < spec.bandwidth < spec.flops


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_device_is_found_by_its_name_in_any_case(name: str) -> None:
    for written in (name, name.lower(), name.upper(), name.replace("-", ""), name.replace("-", "_"), f" {name} "):
        assert find_device(written).name == name


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("V100", "V100-16GB"),
        ("v100", "V100-16GB"),
        ("2080ti", "RTX-2080Ti"),
        ("k40", "K40-12GB"),
        ("H100", "H100-80GB"),
    ],
)
def test_a_part_of_the_name_that_only_one_device_has_is_enough(part: str, name: str) -> None:
    assert find_device(part).name == name


def test_an_ambiguous_part_of_a_name_is_answered_with_all_its_devices() -> None:
    with pytest.raises(ValueError, match=r"^device 'a100' could be A100-40GB or A100-80GB$"):
        find_device("a100")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("V1000", "V100-16GB"), ("v1000", "V100-16GB"), ("h200", "H100-80GB"), ("rtx-2070ti", "RTX-2080Ti")],
)
def test_a_name_that_is_nearly_right_is_answered_with_the_nearest_first(wrong: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"^no device is called '{wrong}'; did you mean {meant}[,?]"):
        find_device(wrong)


@pytest.mark.parametrize("wrong", ["", "-", "xyz", "a\nb"])
def test_a_name_unlike_all_others_is_answered_with_the_catalogue(wrong: str) -> None:
    with pytest.raises(ValueError, match=f"the catalogue has {', '.join(CATALOGUE)}; a TOML file can") as caught:
        find_device(wrong)
    assert repr(wrong) in str(caught.value)


class TestSpec:
    """Figures that no device can have."""

    @pytest.mark.parametrize("field", [field for field in DeviceSpec.__dataclass_fields__ if field != "name"])
    @pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
    def test_every_figure_is_positive_and_finite(self, field: str, value: float) -> None:
        if field == "swap_seconds" and value == 0:  # 0 stands for unknown
            assert replace(V100, swap_seconds=0.0) == V100
            return
        with pytest.raises(ValueError, match=f"^device V100-16GB: {field} must be positive and finite, not {value}$"):
            replace(V100, **{field: value})  # type: ignore[arg-type]

    @pytest.mark.parametrize("field", ["compute_efficiency", "bandwidth_efficiency"])
    def test_an_efficiency_is_at_most_one(self, field: str) -> None:
        replace(V100, **{field: 1.0})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=f"{field} is a share of the peak, at most 1, not 1.01"):
            replace(V100, **{field: 1.01})  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J"])
    def test_a_name_is_one_line_of_text(self, name: str) -> None:
        with pytest.raises(ValueError, match=r"^a device's name must be one line of text, not '"):
            replace(V100, name=name)


FULL = """
name = "mine"
memory = "24GiB"
sms = 82
flops = 35.6e12
bandwidth = "936GB/s"
link_bandwidth = 12e9
"""


class TestToml:
    """A device in a file."""

    def test_a_device_is_described_by_five_figures(self) -> None:
        device = parse_device(FULL)
        assert (device.name, device.memory_bytes, device.sms) == ("mine", 24 * GIB, 82)
        assert (device.bandwidth, device.link_bandwidth) == (936e9, 12e9)

    def test_matrix_products_run_at_the_plain_rate_unless_the_file_says_otherwise(self) -> None:
        assert parse_device(FULL).matrix_flops == parse_device(FULL).half_flops == 35.6e12
        assert parse_device(FULL + "half_flops = 71e12").half_flops == 71e12

    def test_missing_figures_come_from_the_device_named_by_like(self) -> None:
        device = parse_device('name = "half"\nlike = "v100"\nmemory = "8GiB"\nkernel_time = "2us"\nhost_time = 1e-5')
        assert device == replace(V100, name="half", memory_bytes=8 * GIB, kernel_seconds=2e-6, host_seconds=1e-5)

    def test_plain_numbers_are_bytes_and_seconds(self) -> None:
        device = parse_device('name = "x"\nlike = "v100"\nmemory = 4096\nbandwidth = 10\nkernel_time = 1')
        assert (device.memory_bytes, device.bandwidth, device.kernel_seconds) == (4096, 10, 1)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("name = = 3", r"bad device description: .*line 1, column 8"),
            ("\x00\x01", "bad device description: "),
            ("", "bad device description: .*missing required field `name`"),
            ('like = "V100"', "missing required field `name`"),
            ("name = 3", r"Expected `str`, got `int` - at `\$.name`"),
            ('name = ""\nlike = "V100"', "a device's name must be one line of text, not ''"),
            ('name = "a\\nb"\nlike = "V100"', r"a device's name must be one line of text, not 'a\\nb'"),
            ('name = "a\\nb"', r"device 'a\\nb' lacks bandwidth, flops"),
            ('name = "x"', "device 'x' lacks bandwidth, flops, link_bandwidth, memory, sms; give them or a catalogue"),
            (FULL.replace("sms", "# sms"), "device 'mine' lacks sms; give them or a catalogue device in `like`"),
            (FULL + "colour = 3", "unknown field `colour`"),
            (FULL + '"two\\nlines" = 3', "unknown field `two lines`"),
            (FULL + 'name = "other"', "Cannot overwrite a value"),
            (FULL + 'like = "V1000"', "did you mean V100-16GB"),
            (FULL + 'like = "A100"', "could be A100-40GB or A100-80GB"),
            (FULL.replace("24GiB", "lots"), "'lots' is not an amount of memory"),
            (FULL.replace("24GiB", "24GiB/s"), "'24GiB/s' is not an amount of memory"),
            (FULL.replace("936GB/s", "936 per second"), "'936 per second' is not an amount of memory"),
            (FULL + 'kernel_time = "3GB"', "'3GB' is not a duration"),
            (FULL + 'kernel_time = "3us/s"', "'3us/s' is not a duration"),
            (FULL.replace("82", "82.5"), r"Expected `int \| null`, got `float` - at `\$.sms`"),
            (FULL.replace("82", "true"), r"Expected `int \| null`, got `bool`"),
            (FULL.replace("82", "-82"), "device mine: sms must be positive and finite, not -82"),
            (FULL.replace("35.6e12", "inf"), "device mine: flops must be positive and finite, not inf"),
            (FULL.replace("35.6e12", "nan"), "device mine: flops must be positive and finite, not nan"),
            (FULL.replace("35.6e12", "1" + "0" * 400), "bad device description: Number out of range"),
            (FULL.replace("82", "1" * 5000), "bad device description: Exceeds the limit"),
            (FULL.replace("82", "[" * 20_000), "bad device description: maximum recursion depth exceeded"),
            (FULL + "compute_efficiency = 2", "at most 1, not 2.0"),
            (FULL.replace('"24GiB"', "1979-05-27"), "got `date`"),
        ],
    )
    def test_a_text_that_describes_no_device_is_refused_in_one_line(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            parse_device(text)
        assert len(str(caught.value).splitlines()) == 1
