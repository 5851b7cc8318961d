"""Jobs under a daemon on the hollow GPU: a short form of each campaign of tests/campaigns/cuda_*."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from campaigns import cuda_budget, cuda_kills
from hollow.sharing.cuda_daemon import MIB, CudaDaemon, until
from hollow.sharing.running import Hollow
from neaptide.core.control.job import DisplayState
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.messages import SetBudget

AWAY = (DisplayState.EVICTED, DisplayState.SUSPENDED)


@pytest.fixture
def hollow(tmp_path: Path) -> Hollow:
    return Hollow(tmp_path, memory="4G")


@pytest.mark.parametrize("jobs", [2, 4, 8])
def test_the_devices_own_count_never_exceeds_the_budget_of_jobs_that_share_it(hollow: Hollow, jobs: int) -> None:
    with CudaDaemon(hollow, cuda_budget.budget_of(jobs)) as daemon:
        figures = cuda_budget.share(daemon, jobs, seconds=3)
    assert figures.wrong == 0
    assert figures.device_bytes > 0.5 * figures.budget_bytes  # the budget binds


@pytest.mark.parametrize(
    ("campaign", "faults"), [(cuda_kills.kill_jobs, 9), (cuda_kills.kill_daemon, 2), (cuda_kills.kill_keeper, 2)]
)
def test_jobs_go_on_beside_killed_jobs_daemons_and_keepers(
    hollow: Hollow, campaign: Callable[[CudaDaemon, int], cuda_kills.Figures], faults: int
) -> None:
    hollow.environment["HOLLOW_TEARDOWN_MS"] = "30"
    with CudaDaemon(hollow, cuda_kills.BUDGET_BYTES) as daemon:
        assert campaign(daemon, faults).faults == faults


def test_a_job_that_a_smaller_budget_moves_to_the_host_finds_its_data_when_it_returns(hollow: Hollow) -> None:
    with CudaDaemon(hollow, 600 * MIB) as daemon:
        job = daemon.begin("job")
        job.has_said(8)
        until(lambda: daemon.status().jobs[0].solo_seconds > 0, "the job to be measured")
        assert daemon.status().jobs[0].framework_bytes >= 64 * MIB  # its context
        for _ in range(3):
            ask(daemon.paths, SetBudget(16 * MIB))
            until(lambda: daemon.status().jobs[0].state in AWAY, "the job to be moved")
            until(lambda: daemon.status().used_bytes <= (64 + 32) * MIB, "all but its context and libraries to be away")
            ask(daemon.paths, SetBudget(600 * MIB))
            job.goes_on()
        assert daemon.end_jobs()[0]["wrong"] == 0
