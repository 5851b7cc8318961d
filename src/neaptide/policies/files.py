"""A policy by its name, or by the path of a Python file that a user wrote."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from neaptide.core.control.policy import Policy
from neaptide.policies import POLICIES


def find_policy(name_or_path: str) -> Policy:
    """A policy of the registry, or the one in a file whose name ends in .py; ValueError with one clear line if none."""
    if name_or_path.endswith(".py"):
        return load_policy(Path(name_or_path))
    return POLICIES.make(name_or_path)


def load_policy(path: Path) -> Policy:
    """The one policy that a Python file defines, made with its default parameters. Runs the file."""
    if not path.is_file():
        raise ValueError(f"there is no policy file {path}")
    found = list(_policies_defined_in(path))
    if len(found) != 1:
        which = ", ".join(kind.__name__ for kind in found) or "none"
        raise ValueError(f"{path}: a policy file defines exactly one subclass of Policy, this one {which}")
    return _make(found[0], path)


def _policies_defined_in(path: Path) -> Iterator[type[Policy]]:
    module_name = f"neaptide_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None, f"{path} ends in .py"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(module_name)
    sys.modules[module_name] = module  # dataclasses look their module up while it runs
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path}: {_one_line(error)}") from error
    finally:
        if before is None:
            del sys.modules[module_name]
        else:
            sys.modules[module_name] = before
    for kind in vars(module).values():
        own = isinstance(kind, type) and issubclass(kind, Policy) and kind.__module__ == module_name
        if own and not inspect.isabstract(kind):
            yield kind


def _make(kind: type[Policy], path: Path) -> Policy:
    if not isinstance(getattr(kind, "name", None), str) or not kind.name:
        raise ValueError(f"{path}: {kind.__name__} has no name; give it one: name = {path.stem!r}")
    try:
        return kind()
    except TypeError as error:
        raise ValueError(f"{path}: {kind.__name__} cannot be made without arguments: {_one_line(error)}") from None


def _one_line(error: BaseException) -> str:
    line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(str(text).split())}{line}"
