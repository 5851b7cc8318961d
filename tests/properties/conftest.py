"""No property depends on how fast the machine is, and a run gives the same answer every time."""

from hypothesis import settings

settings.register_profile("neaptide", deadline=None, derandomize=True, max_examples=200)
settings.load_profile("neaptide")
