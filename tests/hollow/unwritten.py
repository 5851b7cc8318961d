"""Writes a failing call for each that torch's libraries need and the device's sources lack, and the version map.

usage: unwritten.py TORCH_LIB OUT OBJECT...
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CUDA = re.compile(
    r"(__cuda|cuda|cu[A-Z]|cublas|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nvrtc|nvshmem|nvtx|nvml|hollow_)"
)
# What each library calls "not supported", or the nearest that it has. A call that returns text gets no text.
NOT_SUPPORTED = {
    "cublas": 15,
    "cudnn": 3000,
    "cufft": 16,
    "cufile": 5000,
    "cuFile": 5000,
    "cupti": 27,
    "curand": 999,
    "cusolver": 9,
    "cusparse": 10,
    "nccl": 3,
    "nvml": 3,
    "nvrtc": 11,
    "cuda": 801,
    "cu": 801,
}


def symbols(*arguments: str | Path) -> list[tuple[str, str]]:
    """Name and version of each symbol that nm lists."""
    listed = subprocess.run(["nm", *map(str, arguments)], check=True, text=True, capture_output=True).stdout
    names = (line.split()[-1].partition("@") for line in listed.splitlines() if line.strip())
    return [(name, version.lstrip("@")) for name, _, version in names if CUDA.match(name)]


def needed_by(folder: Path) -> dict[str, str]:
    """Symbols that torch's libraries import, with their version, and those that they look up at run time."""
    needed: dict[str, str] = {}
    for library in sorted(folder.glob("*.so")):
        for name, version in symbols("-D", "--undefined-only", "--with-symbol-versions", library):
            needed[name] = version or needed.get(name, "")
    for found in re.findall(rb"\0((?:cu|nvml)[A-Z]\w+)(?=\0)", (folder / "libc10_cuda.so").read_bytes()):
        needed.setdefault(found.decode(), "")
    return needed


def answer(name: str) -> int:
    if name.endswith(("String", "GetErrorName")):
        return 0
    return next((code for prefix, code in NOT_SUPPORTED.items() if name.startswith(prefix)), -1)


def main() -> None:
    folder, out, *objects = (Path(argument) for argument in sys.argv[1:])
    needed = needed_by(folder)
    defined = {name for file in objects for name, _ in symbols("--defined-only", "-g", file)}
    newer = {re.sub(r"_v\d$", "", name) for name in defined}
    missing = sorted(name for name in needed if name not in defined and name not in newer)
    lines = [f"CALL({name}, {answer(name)})\n" for name in missing]
    (out / "unwritten.c").write_text(
        "long hollow_unwritten(const char* name, int* said, long answer);\n"
        '#define CALL(name, answer) __attribute__((visibility("default"))) long name(void) '
        "{ static int said; return hollow_unwritten(#name, &said, answer); }\n" + "".join(lines)
    )
    versions: dict[str, set[str]] = {}
    for name, version in needed.items():
        if version:
            versions.setdefault(version, set()).add(name)
    for name in defined - needed.keys():
        if name.startswith("cuda"):
            versions.setdefault("libcudart.so.13", set()).add(name)
    nodes = (f"{version} {{ global: {'; '.join(sorted(names))}; }};\n" for version, names in sorted(versions.items()))
    (out / "versions.map").write_text("".join(nodes))
    written = len(needed) - len(missing)
    print(f"{len(needed)} calls needed: {written} written, {len(missing)} fail with their name")


if __name__ == "__main__":
    main()
