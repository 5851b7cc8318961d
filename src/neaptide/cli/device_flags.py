"""A device's settings as flags of a command."""

from __future__ import annotations

from dataclasses import fields, make_dataclass
from typing import Annotated, Any, get_args, get_type_hints

from cyclopts import Parameter

from neaptide.devices import default_kind, find_kind
from neaptide.devices.interface import DeviceKind, DeviceSettings


def kind_with_flags() -> DeviceKind:
    """The kind whose settings are flags: the chosen one. If none can be chosen, `--help` shows those of `soft`."""
    try:
        return default_kind()
    except ValueError:  # the command says so when it runs
        return find_kind("soft")


def flags_of(settings_type: type[DeviceSettings]) -> Any:
    """The annotation of a parameter that takes every setting as a flag; one that is true or false has a --no- flag."""
    hints = get_type_hints(settings_type)
    flags: list[tuple[str, Any, Any]] = []
    for setting in fields(settings_type):
        hint, help_text = hints[setting.name], setting.metadata["help"]
        negative = f"--no-{setting.name.replace('_', '-')}" if bool in get_args(hint) else ()
        flags.append((setting.name, Annotated[hint, Parameter(help=help_text, negative=negative)], None))
    made = make_dataclass(settings_type.__name__, flags, bases=(settings_type,), frozen=True, kw_only=True)
    made.__module__ = settings_type.__module__  # cyclopts takes classes of `types` for builtin ones
    return Annotated[made, Parameter(name="*", show=bool(flags))]


def no_flags_of(annotation: Any) -> DeviceSettings:
    """The settings when no flag is given: of the annotation's own class, as cyclopts asks where pydantic is loaded."""
    settings: DeviceSettings = get_args(annotation)[0]()
    return settings
