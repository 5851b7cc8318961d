"""No property depends on how fast the machine is, and a run gives the same answer every time.

NEAPTIDE_TEST_EXAMPLES is the number of examples for each property; `make quick` tries fewer.
"""

import os

from hypothesis import settings

examples = int(os.environ.get("NEAPTIDE_TEST_EXAMPLES", "200"))
settings.register_profile("neaptide", deadline=None, derandomize=True, max_examples=examples)
settings.load_profile("neaptide")
