"""A policy by its name, or by the path of a Python file that a user wrote."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

from neaptide.core.control.policy import Policy
from neaptide.policies import POLICIES
from neaptide.user_files import one_line, run_user_file


def find_policy(name_or_path: str) -> Policy:
    """A policy of the registry, or the one in a file whose name ends in .py; ValueError with one clear line if none."""
    if name_or_path.endswith(".py"):
        return load_policy(Path(name_or_path))
    return POLICIES.make(name_or_path)


def load_policy(path: Path) -> Policy:
    """The one policy that a Python file defines, made with its default parameters. Runs the file."""
    module = run_user_file(path, "policy")
    found = [kind for kind in vars(module).values() if _is_policy_of(kind, module)]
    if len(found) != 1:
        which = ", ".join(kind.__name__ for kind in found) or "none"
        raise ValueError(f"{path}: a policy file defines exactly one subclass of Policy, this one {which}")
    return _make(found[0], path)


def _is_policy_of(kind: object, module: ModuleType) -> TypeGuard[type[Policy]]:
    own = isinstance(kind, type) and issubclass(kind, Policy) and kind.__module__ == module.__name__
    return own and not inspect.isabstract(kind)


def _make(kind: type[Policy], path: Path) -> Policy:
    if not isinstance(getattr(kind, "name", None), str) or not kind.name:
        raise ValueError(f"{path}: {kind.__name__} has no name; give it one: name = {path.stem!r}")
    try:
        return kind()
    except TypeError as error:
        raise ValueError(f"{path}: {kind.__name__} cannot be made without arguments: {one_line(error)}") from None
