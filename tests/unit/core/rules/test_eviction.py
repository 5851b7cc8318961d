"""Which job is moved to host memory, for which iteration, and when it returns."""

from __future__ import annotations

from dataclasses import dataclass

from neaptide.core.rules.eviction import Evicted, Holder, choose_beneficiary, choose_return, choose_victim


@dataclass(frozen=True)
class Bytes:
    persistent_bytes: int
    ephemeral_bytes: int = 0


def victim(*holders: Holder, beneficiary: str = "oldest") -> str | None:
    chosen = choose_victim(holders, beneficiary)
    return None if chosen is None else chosen.job


OLDEST = Holder("oldest", 5, age=0, waits=True)


def test_room_is_made_for_the_oldest_iteration_that_waits_for_memory() -> None:
    runs = Holder("runs", 5, age=0)
    gated = Holder("gated", 5, age=1, waits=True, held_by_gate=True)
    older, younger = Holder("older", 5, age=2, waits=True), Holder("younger", 5, age=3, waits=True)
    assert choose_beneficiary([younger, older, gated, runs]) is older
    assert choose_beneficiary([runs, gated, Holder("rests", 5)]) is None


def test_the_youngest_iteration_leaves_before_jobs_between_iterations() -> None:
    assert victim(OLDEST, Holder("young", 1, age=9), Holder("middle", 7, age=4), Holder("rests", 50)) == "young"


def test_an_iteration_that_a_gate_holds_back_leaves_first() -> None:
    assert victim(OLDEST, Holder("young", 1, age=9), Holder("gated", 1, age=1, held_by_gate=True)) == "gated"


def test_of_jobs_between_iterations_the_largest_leaves_and_of_equals_the_last_to_arrive() -> None:
    assert victim(OLDEST, Holder("first", 7), Holder("large", 8), Holder("last", 7)) == "large"
    assert victim(OLDEST, Holder("first", 7), Holder("last", 7)) == "last"


def test_neither_the_beneficiary_nor_a_job_that_cannot_move_or_holds_nothing_leaves() -> None:
    assert victim(OLDEST, Holder("moving", 5, age=3, can_move=False), Holder("empty", 0, age=4)) is None


def test_an_evicted_job_returns_when_its_beneficiary_is_safe_and_it_fits() -> None:
    def returns(safe: bool, admitted: int) -> bool:
        return choose_return([Evicted("a", Bytes(4, 3), safe)], [Bytes(admitted)], 10) is not None

    assert returns(True, 3)
    assert not returns(False, 3)
    assert not returns(True, 4)


def test_the_first_evicted_job_returns_first_and_a_job_that_does_not_fit_holds_up_no_other() -> None:
    large, small = Evicted("large", Bytes(9), True), Evicted("small", Bytes(2), True)
    assert choose_return([large, small], [], 10) is large
    assert choose_return([large, small], [Bytes(5)], 10) is small
