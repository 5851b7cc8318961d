"""Python modules in C++ over torch, built just in time as native_library.py builds what needs no torch."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from neaptide.core.text import complain
from neaptide.native_library import BuildError, NativeSources, cache_folder, finish


def _tools() -> str:
    """What a module is built for."""
    return f"{torch.__version__} {sys.version}"


@dataclass(frozen=True, slots=True)
class TorchExtension(NativeSources):
    """A Python module in C++ over torch."""

    link: tuple[str, ...] = ()
    torch_release: str = ""  # the one that it needs, as 2.13

    def load(self) -> ModuleType:
        """The module; builds it first when these sources were not built yet, saying so on stderr."""
        if not torch.__version__.startswith(f"{self.torch_release}."):
            raise BuildError(f"{self.what} needs torch {self.torch_release}, this is torch {torch.__version__}")
        built = self.target()
        return self._import(built) if built.exists() else self.build(built)

    def target(self) -> Path:
        """Where the built module is, or will be."""
        return cache_folder() / f"{self.name}-{self.digest(f'{_tools()} {self.link}')}.so"

    def build(self, target: Path) -> ModuleType:
        """Build and import it; BuildError with one clear line when that cannot be done."""
        self.compiler_command(os.environ.get("CXX", "c++"))
        # One folder for all builds of the same files, so that only files that changed are compiled again.
        place = hashlib.sha256(f"{self.folders} {self.flags}".encode()).hexdigest()[:8]
        workshop = cache_folder() / f"{self.name}-build-{place}"
        with self.build_lock(workshop):
            if target.exists():
                return self._import(target)  # another process has built it meanwhile
            from torch.utils import cpp_extension  # slow to import, and needed only here

            complain(f"building {self.what} (once per version) ...")
            began = time.perf_counter()
            os.environ.setdefault("MAX_JOBS", str(min(2, os.cpu_count() or 1)))
            (workshop / "lock").unlink(missing_ok=True)  # torch's own, which a killed build leaves behind
            remove_outdated_objects(workshop, self.files(), _tools())
            module = cpp_extension.load(
                self.name,
                [str(path) for path in self.sources()],
                extra_cflags=list(self.flags),  # torch adds to the list it is given
                extra_ldflags=list(self.link),
                build_directory=str(workshop),
                verbose=False,
            )
            complain(f"built {self.what} in {time.perf_counter() - began:.0f} s")
            if target != self.target():
                raise BuildError(f"the sources of {self.what} changed while it was built; import it again")
            finish(workshop / f"{self.name}.so", target)
            assert isinstance(module, ModuleType)
            return module

    def _import(self, path: Path) -> ModuleType:
        loader = importlib.machinery.ExtensionFileLoader(self.name, str(path))
        specification = importlib.util.spec_from_loader(self.name, loader)
        assert specification is not None
        module = importlib.util.module_from_spec(specification)
        loader.exec_module(module)
        return module


def remove_outdated_objects(workshop: Path, files: Sequence[Path], tools: str) -> None:
    """Remove the objects of earlier builds if ninja might keep one that is out of date; call it before each build.

    Ninja compiles a file again when the file or one that it includes is newer than the object. That misses a changed
    file with an old time, as an installer may write it, and another version of torch, whose headers ninja ignores.
    """
    record = workshop / "compiled.json"
    now = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    try:
        before = json.loads(record.read_text())
    except (OSError, ValueError):  # there was no build, or it was killed
        before = {"tools": None, "files": {}}
    objects = list(workshop.glob("*.o"))
    newest_ns = max([path.stat().st_mtime_ns for path in objects], default=0)
    changed = [path for path in files if before["files"].get(str(path)) != now[str(path)]]
    if before["tools"] != tools or any(path.stat().st_mtime_ns <= newest_ns for path in changed):
        for path in objects:
            path.unlink()
    record.write_text(json.dumps({"tools": tools, "files": now}))
