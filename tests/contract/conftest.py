"""The contract of the engines: one test code over fake agents in virtual time, the simulator, and processes on `soft`.

- world.py: jobs described by their tides, a scene of them, and the facts that a run shows.
- fake.py, simulator.py, soft.py: the engines. engines.py says which of them a test runs on, and why not on the others.
- test_memory.py: the memory grant, jobs outside iterations, admission in leases, eviction and return.
- test_lanes.py: bytes of the budget that belong to the iterations of a group of jobs.
- test_zico.py, test_paper_policies.py, test_papers_in_turns.py, test_overflow.py: the papers' rules, worked by hand.
- test_device_sharing.py: classes, shares of the SMs, gates that close by themselves.
- test_deadlines.py: requests with a deadline beside training.
- test_servers.py: 42 servers whose requests share one lane.
- test_known_profiles.py: newcomers of which something is known before they run.
- test_launching.py: heavy ops, the cap on kernels in flight, the end of the forward pass.
- test_jobs.py: states, a job alone, a request's batch, growth, the work of an iteration, a stopped process.
- test_promises.py: the budget, the oldest iteration, short jobs beside long ones, eviction and return after a
  misprediction, budget changes and the smallest budget, a killed job.

The boundaries of iterations need torch: tests/soft/test_boundaries.py runs small programs under the profiler, fit and a
live job.
"""

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
