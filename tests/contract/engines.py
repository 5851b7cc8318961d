"""Which engines a test of the contract runs on."""

from __future__ import annotations

import pytest

ENGINES = ("fake", "simulator", "soft")


def engines(**cannot: str) -> pytest.MarkDecorator:
    """All engines but those that cannot show the fact, each with the reason."""
    assert set(cannot) <= set(ENGINES)
    rows = []
    for name in ENGINES:
        marks = [pytest.mark.skip(reason=cannot[name])] if name in cannot else []
        rows.append(pytest.param(name, marks=marks))
    return pytest.mark.parametrize("engine", rows, indirect=True)
