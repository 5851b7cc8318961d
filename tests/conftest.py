"""What all tests share."""

import os

# Test processes run side by side: two OpenMP threads each on two cores would fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")
