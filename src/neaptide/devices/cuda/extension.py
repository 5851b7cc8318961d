"""The C++ part, built against the installed torch and loaded on first import.

It needs a C++ compiler and the headers of CUDA's runtime, which torch's own packages bring; nvcc is not needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from neaptide.devices.cuda.headers import HEADER, find_headers
from neaptide.native_library import RULES, BuildError
from neaptide.torch_extension import TorchExtension

_HERE = Path(__file__).parent
_NATIVE = _HERE.parent / "native"
_STAND_INS = _HERE / "csrc" / "headers"  # for headers that torch's packages do not bring


def extension() -> TorchExtension:
    """What is built; BuildError with one clear line when that cannot be done here."""
    if torch.version.cuda is None:
        raise BuildError(f"torch {torch.__version__} is built without CUDA; install torch's CUDA build to use the GPU")
    headers = find_headers(torch.version.cuda)
    if headers is None:
        major = torch.version.cuda.partition(".")[0]
        raise BuildError(
            f"the CUDA device needs {HEADER} of CUDA {major} to be built, and it was not found; "
            "pip install nvidia-cuda-runtime, or set CUDA_HOME"
        )
    return TorchExtension(
        name="neaptide_cuda",
        what="the CUDA device",
        folders=(
            _HERE / "csrc",
            _HERE / "csrc" / "region",
            _HERE / "csrc" / "headers" / "crt",
            _NATIVE,
            _NATIVE / "launch",
            _NATIVE / "python",
            RULES,
        ),
        # torch is built with NDEBUG, and at::RecordFunction has other members without it.
        flags=("-O2", "-std=c++20", "-Wall", "-DNDEBUG", f"-isystem{headers}", f"-idirafter{_STAND_INS}"),
        link=("-lc10_cuda", "-lrt", "-ldl"),
        torch_release="2.13",
    )


native: Any = extension().load()
