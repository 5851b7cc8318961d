"""The environment that all tests share."""

import gc
import os
import signal
import sys
from typing import Any

import pytest

# Test processes run side by side: two OpenMP threads each on two cores would fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Some hundred processes load the same modules: they are compiled once, also where Python is told to keep no bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test finds what an earlier run of the same program measured, unless it names a folder itself.
os.environ["NEAPTIDE_PROFILES"] = os.path.join(os.devnull, "none")

# A shell starts background programs with SIGINT ignored. Processes that tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Take all modules and tests out of the sight of the garbage collector.

    Captures collect garbage at every iteration. Over the million objects that stay anyway, that takes a second.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have `--dist loadgroup` steal work: when a worker has crashed, its own scheduler waits for ever.

    It would group nothing either: pytest 9.2 does not see the names that it gives to the tests of a group.
    """
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None
