"""A fact that is found when it is first asked for."""

from __future__ import annotations

from neaptide.core.once import once


class Counted:
    def __init__(self) -> None:
        self.found = 0

    @once
    def fact(self) -> int:
        """What is found."""
        self.found += 1
        return self.found


def test_a_fact_is_found_once_for_each_value() -> None:
    one, other = Counted(), Counted()
    assert (one.found, one.fact, one.fact, other.fact) == (0, 1, 1, 1)
    assert Counted.fact.__doc__ == "What is found."
