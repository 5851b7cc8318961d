"""How long threads had no core, as the kernel counts it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from neaptide.live.daemon.watch.core_waits import core_waits, longest_wait_ns


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not count it")
def test_each_thread_of_a_process_is_seen() -> None:
    before = {int(name) for name in os.listdir("/proc/self/task")}
    waits = core_waits(os.getpid())
    after = {int(name) for name in os.listdir("/proc/self/task")}
    assert before & after <= set(waits) <= before | after
    assert all(wait_ns >= 0 for wait_ns in waits.values())


def test_a_process_that_is_gone_has_no_threads() -> None:
    assert core_waits(2**30) == {}


def test_the_thread_that_waited_longest_counts_and_new_threads_do_not() -> None:
    assert longest_wait_ns({1: 10, 2: 10, 3: 10}, {1: 15, 2: 30, 4: 900}) == 20
    assert longest_wait_ns({}, {1: 5}) == 0
