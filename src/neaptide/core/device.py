"""What a device can do: memory, compute, bandwidth, and the cost of talking to it.

The catalogue's peak figures are the vendors' data sheets'. `compute_efficiency`, `bandwidth_efficiency`,
`kernel_seconds` and `host_seconds` say how much of them an eager framework reaches; see docs/fidelity.md.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from neaptide.core.units import GIB, parse_bytes, parse_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """A device as the cost model sees it; rates are per second."""

    name: str
    memory_bytes: int
    sms: int
    flops: float  # fp32, outside tensor cores
    matrix_flops: float  # fp32 matrix products and convolutions, as PyTorch runs them by default
    half_flops: float  # fp16 or bf16 matrix products
    bandwidth: float  # device memory, bytes
    link_bandwidth: float  # to the host, bytes, one direction
    kernel_seconds: float = 3e-6  # duration of the shortest kernel
    host_seconds: float = 8e-6  # the framework's work per launch
    swap_seconds: float = 0.0  # the program's own work for moving one tensor out and back, where that was measured
    compute_efficiency: float = 0.7
    bandwidth_efficiency: float = 0.85

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable():
            raise ValueError(f"a device's name must be one line of text, not {self.name!r}")
        for field in self.__dataclass_fields__:
            value = getattr(self, field)
            if field == "swap_seconds" and value == 0:
                continue
            if field != "name" and not 0 < value < math.inf:
                raise ValueError(f"device {self.name}: {field} must be positive and finite, not {value}")
            if field.endswith("efficiency") and value > 1:
                raise ValueError(f"device {self.name}: {field} is a share of the peak, at most 1, not {value}")


def _gpu(name: str, memory: int, sms: int, fp32: float, half: float, bandwidth: float, link: float) -> DeviceSpec:
    """A GPU from data-sheet figures in GiB, TFLOP/s and GB/s."""
    return DeviceSpec(
        name=name,
        memory_bytes=memory * GIB,
        sms=sms,
        flops=fp32 * 1e12,
        matrix_flops=fp32 * 1e12,
        half_flops=half * 1e12,
        bandwidth=bandwidth * 1e9,
        link_bandwidth=link * 1e9,
    )


CATALOGUE: Mapping[str, DeviceSpec] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            _gpu("K40-12GB", 12, 15, 4.29, 4.29, 288, 10),  # SuperNeurons
            _gpu("P100-16GB", 16, 56, 9.3, 18.7, 732, 12),  # Salus
            _gpu("V100-16GB", 16, 80, 15.7, 125, 900, 12),  # Zico, Herald
            _gpu("RTX-2080Ti", 11, 68, 13.45, 53.8, 616, 12),  # Zico
            _gpu("A100-40GB", 40, 108, 19.5, 312, 1555, 24),
            _gpu("A100-80GB", 80, 108, 19.5, 312, 2039, 24),
            _gpu("H100-80GB", 80, 132, 66.9, 989, 3350, 50),
            DeviceSpec(  # the software GPU on two cores of a current server; a rough guide: better measure
                name="soft",
                memory_bytes=8 * GIB,
                sms=2,
                flops=200e9,
                matrix_flops=200e9,
                half_flops=200e9,
                bandwidth=20e9,
                link_bandwidth=10e9,
                kernel_seconds=2e-6,
                host_seconds=20e-6,
            ),
        )
    }
)


def find_device(name: str) -> DeviceSpec:
    """A device of the catalogue by name or by a part of it (`V100`); ValueError with the nearest names."""
    wanted = _plain(name)
    found = [spec for known, spec in CATALOGUE.items() if _plain(known) == wanted]
    found = found or [spec for known, spec in CATALOGUE.items() if wanted and wanted in _plain(known)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"device {name!r} could be {' or '.join(spec.name for spec in found)}")
    plain_names = {_plain(known): known for known in CATALOGUE}
    near = [plain_names[plain] for plain in difflib.get_close_matches(wanted, plain_names, n=3, cutoff=0.4)]
    hint = f"did you mean {', '.join(near)}?" if near else f"the catalogue has {', '.join(CATALOGUE)}"
    raise ValueError(f"no device is called {name!r}; {hint}; a TOML file can describe another")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


class _DeviceFile(msgspec.Struct, forbid_unknown_fields=True):
    """A device in TOML: amounts as people write them, rates per second; `like` takes the rest from the catalogue."""

    name: str
    like: str | None = None
    memory: str | int | None = None
    sms: int | None = None
    flops: float | None = None
    matrix_flops: float | None = None
    half_flops: float | None = None
    bandwidth: str | float | None = None
    link_bandwidth: str | float | None = None
    kernel_time: str | float | None = None
    host_time: str | float | None = None
    compute_efficiency: float | None = None
    bandwidth_efficiency: float | None = None


_FIELD_OF_KEY = {"memory": "memory_bytes", "kernel_time": "kernel_seconds", "host_time": "host_seconds"}


def parse_device(text: str) -> DeviceSpec:
    """A device from TOML text; ValueError with one clear line if the text does not describe one."""
    try:
        given = msgspec.convert(tomllib.loads(text), _DeviceFile)
    except (ValueError, RecursionError) as error:  # tomllib's and msgspec's errors are ValueErrors
        raise ValueError(f"bad device description: {' '.join(str(error).split())}") from None
    values: dict[str, float] = {}
    if given.like is not None:
        base = find_device(given.like)
        values = {field: getattr(base, field) for field in base.__dataclass_fields__ if field != "name"}
    for key in _DeviceFile.__struct_fields__:
        value = getattr(given, key)
        if key in ("name", "like") or value is None:
            continue
        if isinstance(value, str):
            amount = value.removesuffix("/s") if key.endswith("bandwidth") else value
            value = parse_seconds(amount) if key.endswith("_time") else parse_bytes(amount)
        values[_FIELD_OF_KEY.get(key, key)] = value
    if "flops" in values:  # a plain device multiplies matrices no faster than it does anything else
        values.setdefault("matrix_flops", values["flops"])
        values.setdefault("half_flops", values["flops"])
    missing = sorted(
        key
        for key in ("memory", "sms", "flops", "bandwidth", "link_bandwidth")
        if _FIELD_OF_KEY.get(key, key) not in values
    )
    if missing:
        raise ValueError(f"device {given.name!r} lacks {', '.join(missing)}; give them or a catalogue device in `like`")
    return DeviceSpec(name=given.name, **values)  # type: ignore[arg-type]
