"""The engines."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from contract.fake import Fake
from contract.simulator import Simulator
from contract.soft import Soft
from contract.world import Engine

_ENGINES: dict[str, Callable[[], Engine]] = {"fake": cache(Fake), "simulator": cache(Simulator), "soft": cache(Soft)}


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Engine:
    return _ENGINES[request.param]()
