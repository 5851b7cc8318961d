"""What every device needs of the machine."""

from __future__ import annotations

import ast
import os
import resource
import shutil
from importlib.util import find_spec
from pathlib import Path

from neaptide.core.units import format_bytes
from neaptide.devices.checkup.finding import Finding, Grade

TORCH_RELEASE = "2.13"
_FEW_FILES = 1024
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_NO_LIMIT_BYTES = 1 << 60


def machine_findings(cgroup_limits: tuple[str, ...] = _CGROUP_LIMITS) -> list[Finding]:
    """torch, the compiler and the limits of this user's processes."""
    return [_torch(), _compiler(), _files(), _memory(cgroup_limits)]


def torch_build() -> tuple[str, str | None] | None:
    """The installed torch's version and the CUDA that it is built for, from its files; None: there is no torch."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return None
    values: dict[str, str | None] = {}
    for statement in ast.parse((Path(found.origin).parent / "version.py").read_text(encoding="utf-8")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(value)):
                values[name] = value if isinstance(value, str) else None
            case ast.AnnAssign(target=ast.Name(name), value=ast.Constant(value)):
                values[name] = value if isinstance(value, str) else None
    return values.get("__version__") or "unknown", values.get("cuda")


def _torch() -> Finding:
    build = torch_build()
    if build is None:
        return Finding("torch", Grade.FAILURE, "it is not installed", f"pip install torch=={TORCH_RELEASE}.*")
    version, cuda = build
    text = f"{version}, built for {f'CUDA {cuda}' if cuda else 'the CPU'}"
    if version.startswith(f"{TORCH_RELEASE}."):
        return Finding("torch", Grade.OK, text)
    return Finding("torch", Grade.FAILURE, text, f"pip install torch=={TORCH_RELEASE}.*")


def _compiler() -> Finding:
    compiler = os.environ.get("CXX") or "g++"
    found = shutil.which(compiler.split()[0])
    if found is None:
        remedy = "install g++ (apt install g++), or set CXX"
        return Finding("compiler", Grade.FAILURE, f"{compiler} was not found; devices are built on first use", remedy)
    return Finding("compiler", Grade.OK, found)


def _files() -> Finding:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"a process may have {limit} files open"
    if limit < _FEW_FILES:
        return Finding("file limit", Grade.WARNING, text, f"ulimit -n {_FEW_FILES}")
    return Finding("file limit", Grade.OK, text)


def _memory(cgroup_limits: tuple[str, ...]) -> Finding:
    """Evicted jobs are in host memory, so a limit on it limits how much can be evicted."""
    for path in map(Path, cgroup_limits):
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdecimal() and int(text) < _NO_LIMIT_BYTES:
            said = f"its cgroup leaves {format_bytes(int(text))} of memory, evicted jobs among it"
            return Finding("host memory", Grade.WARNING, said, "raise the container's memory limit if jobs are evicted")
    total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Finding("host memory", Grade.OK, f"{format_bytes(total_bytes)}, and no limit for this process")
