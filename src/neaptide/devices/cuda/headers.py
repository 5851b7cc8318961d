"""Where CUDA's headers are: in torch's packages, under CUDA_HOME, or in an installed toolkit. Loads no torch."""

from __future__ import annotations

import os
import site
from importlib.util import find_spec
from pathlib import Path

HEADER = "cuda_runtime_api.h"


def find_headers(cuda_version: str) -> Path | None:
    """The folder that has the header of this CUDA version, as `13.0`."""
    torch = find_spec("torch")
    places = [Path(torch.origin).parents[1]] if torch is not None and torch.origin is not None else []
    places += [*map(Path, site.getsitepackages()), Path(site.getusersitepackages())]
    names = (f"cu{cuda_version.partition('.')[0]}", "cuda_runtime")
    candidates = [place / "nvidia" / name / "include" for place in places for name in names]
    if home := os.environ.get("CUDA_HOME"):
        candidates.append(Path(home) / "include")
    candidates.append(Path("/usr/local/cuda/include"))
    return next((folder for folder in candidates if (folder / HEADER).is_file()), None)
