"""Runs a Python file that a user wrote, such as a policy or a planner named by its path.

`policies.files` and `planning.planners.files` import it. A user's device is a folder, which `devices` loads itself.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def run_user_file(path: Path, what: str) -> ModuleType:
    """Run a file and return its module; ValueError with one line if the file is missing or raises.

    `what` says in messages what the file should hold.
    """
    if not path.is_file():
        raise ValueError(f"there is no {what} file {path}")
    name = f"neaptide_{what}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, f"{path} ends in .py"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses look up their module while it runs
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path}: {one_line(error)}") from error
    finally:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
    return module


def one_line(error: BaseException) -> str:
    """The kind and the message of an error in one line, with the line number of a syntax error."""
    line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(str(text).split())}{line}"
