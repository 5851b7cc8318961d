"""The environment that all tests share."""

import os
import signal

# Test processes run side by side: two OpenMP threads each on two cores would fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test finds what an earlier run of the same program measured, unless it names a folder itself.
os.environ["NEAPTIDE_PROFILES"] = os.path.join(os.devnull, "none")

# A shell starts background programs with SIGINT ignored. Processes that tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
