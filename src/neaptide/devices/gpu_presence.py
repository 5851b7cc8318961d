"""Whether torch would find an NVIDIA GPU here, told without importing torch, which takes seconds.

It looks at how the installed torch was built and at the files that NVIDIA's driver makes. Inside a job,
`torch.cuda.is_available` is the truth, and `DeviceKind.prepare` asks it again.
"""

from __future__ import annotations

import ast
import os
from importlib.util import find_spec
from pathlib import Path

# Of a driver on Linux, on Windows' Linux and on boards with a GPU of their own.
_DRIVER_FILES = ("nvidia[0-9]*", "dxg", "nvhost-gpu", "nvgpu")


def torch_finds_gpu(devices: Path = Path("/dev")) -> bool:
    """Whether this torch is built for CUDA and there is a GPU that CUDA_VISIBLE_DEVICES does not hide."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip()
    if not visible or visible.startswith("-"):
        return False
    return any(True for name in _DRIVER_FILES for _ in devices.glob(name)) and _built_for_cuda()


def _built_for_cuda() -> bool:
    """What `torch.version.cuda` says, read from its file."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return False
    try:
        statements = ast.parse((Path(found.origin).parent / "version.py").read_text(encoding="utf-8")).body
    except (OSError, SyntaxError):
        return False
    for statement in statements:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "cuda" for target in targets):
            value = getattr(statement, "value", None)
            return isinstance(value, ast.Constant) and value.value is not None
    return False
