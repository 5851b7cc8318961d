"""What is held while tensors are on the host."""

from __future__ import annotations

import numpy as np

from neaptide.planning.analysis.swap_times import held_without


def test_a_tensor_is_absent_from_its_first_free_op_to_its_last() -> None:
    held = np.array([50, 50, 50, 50])
    first, last, sizes = np.array([1, 2, 3]), np.array([1, 3, 2]), np.array([10, 7, 100])  # the third is never absent
    assert held_without(held, first, last, sizes).tolist() == [50, 40, 43, 43]
