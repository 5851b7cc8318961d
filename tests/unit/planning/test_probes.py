"""Which iterations of a planned job are checked."""

from __future__ import annotations

from neaptide.planning.executor.run.probes import is_probed


def test_the_first_two_iterations_and_every_sixteenth_are_checked() -> None:
    assert [iteration for iteration in range(50) if is_probed(iteration)] == [0, 1, 16, 32, 48]
