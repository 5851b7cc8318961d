import numpy as np

from neaptide.live.foreseen import STEPS, foreseen_bytes
from tides import MIB, tide


def test_what_is_foreseen_is_the_most_from_here_to_the_end() -> None:
    trace = tide(ops=512, persistent=10 * MIB, ephemeral=100 * MIB)
    levels = foreseen_bytes(trace, 1, 1)
    assert len(levels) == STEPS
    assert levels[0] == trace.peak_bytes
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] < 20 * MIB
    starts = np.arange(STEPS) * len(trace.ops) // STEPS
    assert all(level >= trace.held_bytes[start:].max() for level, start in zip(levels, starts, strict=True))


def test_leases_are_more_than_the_blocks_in_them_but_not_without_end() -> None:
    trace = tide()
    assert foreseen_bytes(trace, 110, 100)[0] == np.ceil(1.1 * trace.peak_bytes)
    assert foreseen_bytes(trace, 300, 100)[0] == np.ceil(1.25 * trace.peak_bytes)
    assert foreseen_bytes(trace, 50, 100)[0] == trace.peak_bytes
