"""Rules of a line or two: permits ahead, caps on kernels in flight, heavy kernels, work, batches, admission."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from neaptide.core.rules.admission import spare_bytes
from neaptide.core.rules.heavy import LIGHT_FILL, is_heavy
from neaptide.core.rules.in_flight import DEFAULT_IN_FLIGHT, in_flight_cap
from neaptide.core.rules.patience import HANGING_NS, hanging_ns
from neaptide.core.rules.permits import permits_ahead
from neaptide.core.rules.work import requests_served, work_ns


@dataclass(frozen=True)
class Bytes:
    persistent_bytes: int
    ephemeral_bytes: int


def test_a_training_job_that_is_alone_runs_ahead_of_the_policy() -> None:
    assert permits_ahead(1, trains=True) is None


@pytest.mark.parametrize(("jobs", "trains"), [(1, False), (2, True), (2, False)])
def test_a_job_that_shares_the_device_or_serves_waits_for_every_permit(jobs: int, trains: bool) -> None:
    assert permits_ahead(jobs, trains) == 0


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_policys_cap_holds_for_any_number_of_jobs(jobs: int) -> None:
    assert in_flight_cap(3, jobs) == 3


def test_without_a_policys_cap_a_job_has_the_default_beside_others_and_none_alone() -> None:
    assert in_flight_cap(None, 2) == DEFAULT_IN_FLIGHT
    assert in_flight_cap(None, 1) is None


@pytest.mark.parametrize(
    ("width", "sms", "heavy"),
    [(1, 1, True), (1, 2, False), (2, 2, True), (2, 4, False), (3, 4, True), (54, 108, False)],
)
def test_a_kernel_is_heavy_when_a_second_like_it_does_not_fit_beside_it(width: int, sms: int, heavy: bool) -> None:
    assert is_heavy(width, sms) is heavy
    assert (width / sms > LIGHT_FILL) is heavy is (2 * width > sms)


def test_work_counts_measured_iterations_when_sizes_are_known() -> None:
    assert work_ns(1000, 3, None) == 3000
    assert work_ns(1000, 3, 4.5) == 4500


def test_an_iteration_serves_at_most_a_batch_and_at_least_one_request_when_the_batch_is_unknown() -> None:
    assert requests_served(3, 4) == 3
    assert requests_served(5, 4) == 4
    assert requests_served(5, 0) == 1


def test_admitted_jobs_fit_when_all_persistent_bytes_and_the_largest_ephemeral_peak_fit() -> None:
    jobs = [Bytes(10, 40), Bytes(20, 30)]
    assert spare_bytes(jobs, 70) == 0
    assert spare_bytes(jobs, 69) == -1
    assert spare_bytes([], 5) == 5


def test_a_long_iteration_gets_more_patience_before_it_is_taken_to_hang() -> None:
    assert hanging_ns(1) == HANGING_NS
    assert hanging_ns(HANGING_NS) == 5 * HANGING_NS
