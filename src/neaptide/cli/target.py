"""The target of a command: a model, a script or a trace; and the words that belong to the script. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args

from cyclopts import ArgumentCollection

Target = Literal["model", "script", "trace"]


def target_kind(target: str) -> Target:
    """Whether `target` is a model, a script or a trace; ValueError if it is a path to neither of the last two.

    A plain word is always a model, so that a file of that name does not change the meaning of a command.
    """
    if "/" not in target and "." not in target:
        return "model"
    from neaptide.core.traces.trace_format import MAGIC  # imports NumPy, which `--help` does not need

    path = Path(target)
    if path.is_dir():
        raise ValueError(f"{target} is a directory; name a Python script or a trace file in it")
    if not path.exists():
        surely_a_path = "/" in target or path.suffix in (".py", ".trace")
        raise ValueError(f"there is no file {target}" + ("" if surely_a_path else ", and no model of that name"))
    with path.open("rb") as file:
        start = file.read(len(MAGIC))
    if start == MAGIC:
        return "trace"
    if path.suffix == ".py" or start.startswith(b"#!"):
        return "script"
    raise ValueError(f"{target} is neither a trace file nor a Python script (a name that ends with .py)")


def end_options_at_script(tokens: Sequence[str], known: ArgumentCollection) -> list[str]:
    """Put `--` after the target if it is a script, so that all words after it belong to the script."""
    at = _first_plain(tokens, _with_value(known))
    if at is None or not _is_script(tokens[at]):
        return list(tokens)
    return [*tokens[: at + 1], "--", *tokens[at + 1 :]]


def end_options_at_program(tokens: Sequence[str], known: ArgumentCollection) -> list[str]:
    """Put `--` before the first word that is neither an option nor a file of jobs; the rest belongs to the program."""
    at = _first_plain(tokens, _with_value(known))
    if at is None or tokens[at].endswith(".toml"):
        return list(tokens)
    return [*tokens[:at], "--", *tokens[at:]]


def _with_value(known: ArgumentCollection) -> set[str]:
    """The options that take the next word; one that is true or false takes none."""
    takers = (argument for argument in known if bool not in (argument.hint, *get_args(argument.hint)))
    return {name for argument in takers for name in argument.names if argument.token_count()[0]}


def _first_plain(tokens: Sequence[str], with_value: Iterable[str]) -> int | None:
    """The position of the first token that is neither an option nor an option's value; None if `--` comes first."""
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token == "--":
            return None
        if not token.startswith("-"):
            return position
        position += 2 if token in with_value else 1
    return None


def _is_script(target: str) -> bool:
    try:
        return target_kind(target) == "script"
    except (ValueError, OSError):
        return False  # the command itself reports the error
