"""What a priority is worth: a share of the device, not a right to all of it."""

from __future__ import annotations

# Larger and smaller priorities count as these: the lowest still gets a thousandth of what the highest gets.
HIGHEST = 5


def weight(priority: int) -> float:
    """The weight of a job. Jobs that compete get the device in proportion to their weights; one step doubles it."""
    return 2.0 ** max(-HIGHEST, min(priority, HIGHEST))
