"""Attaches a job to the daemon as soon as it has imported torch; the program is not changed.

`neaptide run` puts this file's folder first on PYTHONPATH, so that Python imports it at start-up. It goes on to the
user's own `sitecustomize`. Without NEAPTIDE_SOCKET, in workers of data loaders and in processes that never import torch
it does nothing.
"""

from __future__ import annotations

import os
import sys
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


def _is_multiprocessing_child() -> bool:
    return any(word == "--multiprocessing-fork" or word.startswith("from multiprocessing.") for word in sys.orig_argv)


def _attach() -> None:
    try:
        from neaptide.live.job.attach import attach_from_environment

        attach_from_environment()
    except Exception as error:  # an error of neaptide must not end the program
        print(f"neaptide: this process is not shared: {error}", file=sys.stderr, flush=True)


class _TorchFinder:
    """Finds torch once, with the other finders, and calls `_attach` when torch has been imported."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path)
        specification = next((each for each in found if each is not None), None)
        if specification is not None and specification.loader is not None:
            loader = specification.loader
            execute = loader.exec_module

            def execute_and_attach(module: ModuleType) -> None:
                execute(module)
                _attach()

            loader.exec_module = execute_and_attach  # type: ignore[method-assign]
        return specification


try:
    _go_on_to_the_users_own()
finally:
    if os.environ.get("NEAPTIDE_SOCKET") and not _is_multiprocessing_child():
        sys.meta_path.insert(0, _TorchFinder())
