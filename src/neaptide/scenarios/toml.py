"""Tables of a TOML file as structs. Errors name the file, the line and the table."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from neaptide.core.text import printable
from neaptide.core.units import parse_seconds

Given = TypeVar("Given", bound=msgspec.Struct)
Time = str | int | float  # such as "50ms", or a number of seconds


def text_of(path: Path) -> str:
    """What a file says; ValueError if it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file; name one that you can read in an editor") from None


@dataclass(frozen=True, slots=True)
class Place:
    """A table's place in a file."""

    file: str
    text: str
    table: str = ""  # its name, such as job or device; empty for the top level
    index: int = 0
    title: str = ""

    @contextmanager
    def blamed(self, *keys: str) -> Iterator[None]:
        """Turn errors inside into ValueError that names the line of these keys."""
        try:
            yield
        except (ValueError, OSError) as error:
            reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
            raise ValueError(self.error(reason.removeprefix(f"{self.title}: "), *keys)) from None

    def error(self, reason: str, *keys: str) -> str:
        line = self._line(keys)
        parts = [self.file, *([f"line {line}"] if line else []), *([self.title] if self.title else [])]
        return printable(f"{', '.join(parts)}: {reason}")

    def _line(self, keys: tuple[str, ...]) -> int | None:
        """The line that sets one of the keys, or else the line that opens the table."""
        lines = self.text.splitlines()
        starts = [i for i, line in enumerate(lines) if re.match(rf"\s*\[\[?\s*{self.table}\s*\]", line)]
        if self.table and self.index >= len(starts):
            return None  # the table is written inline or with dotted keys
        start = starts[self.index] + 1 if self.table else 0
        for number, line in enumerate(lines[start:], start + 1):
            if re.match(r"\s*\[", line) and not any(re.match(rf"\s*\[\s*{key}\s*\]", line) for key in keys):
                break
            if any(re.match(rf"\s*(\[\s*)?{re.escape(key)}\s*[=.\]]", line) for key in keys):
                return number
        return start or None


def parse(place: Place) -> dict[str, Any]:
    """The tables of a file's text; ValueError if it is not TOML."""
    try:
        return tomllib.loads(place.text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{place.file}: not TOML: {error}") from None


def seconds_of(given: Time) -> float:
    """Seconds from a duration such as 50ms, or from a number of seconds."""
    seconds = parse_seconds(given) if isinstance(given, str) else float(given)
    if not 0 <= seconds < 2**33:
        raise ValueError(f"{given} is not a time; write it like 50ms or 1.5s")
    return seconds


def convert(tree: dict[str, Any], kind: type[Given], place: Place) -> Given:
    """A struct from a table; ValueError with the wrong key and its line."""
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        message = str(error).replace("`", "").replace(" | null", "")
        reason, _, at = message.partition(" - at $.")
        if unknown := re.fullmatch(r"(?s)Object contains unknown field (.+)", reason):
            table = _table_at(kind, at)
            near = difflib.get_close_matches(unknown[1], table.__struct_fields__, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(table.__struct_fields__)}"
            raise ValueError(place.error(f"unknown key {unknown[1]!r}; {hint}", unknown[1], at)) from None
        if missing := re.fullmatch(r"Object missing required field (.+)", reason):
            raise ValueError(place.error(f"{missing[1]} is missing")) from None
        key = re.split(r"[.\[]", at)[0]
        raise ValueError(place.error(f"{at}: {reason[0].lower()}{reason[1:]}", key)) from None


def _table_at(kind: type[msgspec.Struct], at: str) -> type[msgspec.Struct]:
    """The struct of the table at key `at`; `kind` itself if there is none."""
    held = get_type_hints(kind).get(at)
    inner = [each for each in get_args(held) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    return inner[0] if inner else kind
