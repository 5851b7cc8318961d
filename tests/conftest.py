"""What all tests share."""

import os
import signal

# Test processes run side by side: two OpenMP threads each on two cores would fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Processes that tests start, and interrupt, inherit this; a shell has it ignored by what runs in the background.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
