"""Prepares a process to be a job of the daemon as soon as it has imported torch; the program is not changed.

`neaptide run` puts this file's folder first on PYTHONPATH, so that Python imports it at start-up. It goes on to the
user's own `sitecustomize`. Without NEAPTIDE_SOCKET and in processes that never import torch it does nothing. If
NEAPTIDE_SOCKET is empty, the process gets the device and no daemon.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any


def _go_on_to_the_users_own() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    specification = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path) != here])
    if specification is not None and specification.loader is not None:
        module = module_from_spec(specification)
        sys.modules["sitecustomize"] = module
        specification.loader.exec_module(module)


def _show() -> None:
    """Map this file, which the kernel shows to others: `neaptide run` looks for processes that have not read it."""
    with suppress(OSError, ValueError, ImportError):  # no descriptor or no address is left; a Python without mmap
        import mmap

        with open(__file__, "rb") as file:
            kept = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        setattr(sys, "neaptide_bootstrap", kept)  # noqa: B010 - this module may be replaced by the user's own


def _prepare() -> None:
    try:
        from neaptide.live.job.attach import prepare_from_environment

        prepare_from_environment()
    except Exception as error:  # this Python cannot import neaptide; an error of neaptide must not end the program
        text = f"neaptide: this process is not shared: {error}\n"
        with suppress(OSError, ValueError):  # a full disk, a closed file
            if sys.__stderr__ is not None:
                os.write(sys.__stderr__.fileno(), text.encode(errors="backslashreplace"))


class _TorchFinder:
    """Finds torch with the other finders, and calls `_prepare` when torch has been executed.

    Until then it stays: many libraries ask whether there is a torch long before anything imports it.
    """

    def __init__(self) -> None:
        self._asking: set[int] = set()  # threads that ask the other finders, which may ask all of them again

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        thread = get_ident()
        if name != "torch" or thread in self._asking:
            return None
        self._asking.add(thread)
        try:
            found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path) if finder is not self)
            specification = next((each for each in found if each is not None), None)
        finally:
            self._asking.discard(thread)
        if specification is not None and specification.loader is not None:
            self._watch(specification.loader)
        return specification

    def _watch(self, loader: Any) -> None:
        execute = loader.exec_module

        def execute_and_prepare(module: ModuleType) -> None:
            execute(module)
            loader.exec_module = execute
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _prepare()

        loader.exec_module = execute_and_prepare


try:
    _go_on_to_the_users_own()
finally:
    if "NEAPTIDE_SOCKET" in os.environ:
        _show()
        if "torch" in sys.modules:
            _prepare()
        else:
            sys.meta_path.insert(0, _TorchFinder())
