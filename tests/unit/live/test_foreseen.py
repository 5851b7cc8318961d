import numpy as np

from neaptide.live.job.expected_leases import Spare, foreseen_bytes
from tides import MIB, tide

NONE = Spare(peak_bytes=0, most_bytes=0)


def test_what_is_foreseen_is_the_most_from_here_to_the_end() -> None:
    trace = tide(ops=512, persistent=10 * MIB, ephemeral=100 * MIB)
    levels = foreseen_bytes(trace, None, NONE)
    assert len(levels) == 512
    assert levels[0] == trace.peak_bytes
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] < 20 * MIB
    assert all(level >= trace.held_bytes[op:].max() for op, level in enumerate(levels))


def test_leases_are_more_than_the_blocks_in_them_after_the_peak_more_so_but_not_without_end() -> None:
    trace = tide(ops=512, ephemeral=100 * MIB)
    plain = foreseen_bytes(trace, None, NONE)
    levels = foreseen_bytes(trace, None, Spare(peak_bytes=2 * MIB, most_bytes=10 * MIB))
    assert levels[-1] == plain[-1] + 10 * MIB
    assert plain[0] + 2 * MIB <= levels[0] <= plain[0] + 10 * MIB
    far = foreseen_bytes(trace, None, Spare(peak_bytes=10 * trace.peak_bytes, most_bytes=10 * trace.peak_bytes))
    assert far[0] == trace.peak_bytes + round(trace.peak_bytes / 4)


def test_kernels_are_read_as_the_ops_that_launched_them() -> None:
    trace = tide(ops=8, ephemeral=100 * MIB)
    by_op = foreseen_bytes(trace, None, NONE)
    op_of_kernel = np.array([0, 0, 0, 1, 2, 5, 3, 4, 5, 6, 7, 7])  # the sixth was taken for a later op's
    levels = foreseen_bytes(trace, op_of_kernel, NONE)
    assert levels == [by_op[op] for op in (0, 0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 7)]
