"""Builds the device's C++ part just in time, once per source and torch version."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from pathlib import Path
from types import ModuleType

import torch

_NAME = "neaptide_soft"
_HERE = Path(__file__).parent
_NATIVE = _HERE.parent / "native"
_FOLDERS = (_HERE / "csrc", _NATIVE, _NATIVE / "launch", _HERE.parents[1] / "core" / "rules")
_FLAGS = ("-O2", "-std=c++20", "-fopenmp", "-Wall")
_LINK = ("-lgomp", "-lrt")


def sources() -> list[Path]:
    """The C++ files that make up the extension."""
    return sorted(path for folder in _FOLDERS for path in folder.glob("*.cpp"))


def digest() -> str:
    """A name for what would be built: changes with any source, flag, or version of torch or Python."""
    state = hashlib.sha256()
    state.update(f"{torch.__version__} {sys.version} {_FLAGS} {_LINK}".encode())
    for folder in _FOLDERS:
        for path in sorted(folder.glob("*.[ch]*")):
            state.update(path.name.encode())
            state.update(path.read_bytes())
    return state.hexdigest()[:16]


def cache_folder() -> Path:
    """Where builds are kept: NEAPTIDE_CACHE, else the user's cache folder."""
    named = os.environ.get("NEAPTIDE_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "neaptide"


def _check_torch() -> None:
    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if release != (2, 13):
        raise RuntimeError(f"the soft device needs torch 2.13, this is torch {torch.__version__}")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RuntimeError(
            f"the soft device cannot be built: {folder} is not writable ({error.strerror}); set NEAPTIDE_CACHE"
        ) from None


def _check_compiler() -> None:
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler.split()[0]) is None:
        raise RuntimeError(f"the soft device needs a C++ compiler to be built, and {compiler!r} was not found; set CXX")


def load() -> ModuleType:
    """The extension module; builds it first when this source was not built yet, saying so on stderr."""
    _check_torch()
    folder = cache_folder() / f"soft-{digest()}"
    built = folder / f"{_NAME}.so"
    if built.exists():
        return _import(built)
    _check_compiler()
    workshop = folder / "build"
    _make(workshop)
    from torch.utils import cpp_extension  # slow to import, and needed only here

    print("neaptide: building the soft device (once per version) ...", file=sys.stderr, flush=True)
    began = time.perf_counter()
    os.environ.setdefault("MAX_JOBS", str(min(2, os.cpu_count() or 1)))
    module = cpp_extension.load(
        _NAME,
        [str(path) for path in sources()],
        extra_cflags=list(_FLAGS),  # torch adds to the list it is given
        extra_ldflags=list(_LINK),
        build_directory=str(workshop),
        verbose=False,
    )
    seconds = time.perf_counter() - began
    print(f"neaptide: built the soft device in {seconds:.0f} s", file=sys.stderr, flush=True)
    assert isinstance(module, ModuleType)
    if folder.name != f"soft-{digest()}":
        raise RuntimeError("the soft device's sources changed while it was built; import it again")
    # Other processes look for the finished file only, so that none loads one that is half written.
    finished = folder / f".{_NAME}-{os.getpid()}"
    shutil.copy2(workshop / f"{_NAME}.so", finished)
    finished.replace(built)
    return module


def _import(path: Path) -> ModuleType:
    import importlib.machinery
    import importlib.util

    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(path))
    specification = importlib.util.spec_from_loader(_NAME, loader)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    loader.exec_module(module)
    return module
