"""Lanes: sum(P) + sum over lanes of max(E) stays within the capacity; they open, grow, shrink, merge and spread."""

from __future__ import annotations

from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.parts.lanes import Lanes
from views import job, tide, view


def member(name: str, ephemeral: int, persistent: int = 0, lane: int | None = None, **facts: object) -> JobView:
    return job(name, tide(ephemeral, persistent=persistent), lane=lane, **facts)


def lanes(*members: JobView, capacity: int = 100) -> Lanes:
    return Lanes.of(view(*members, budget=capacity))


def names(made: Lanes | None) -> dict[int, list[str]]:
    assert made is not None
    return {lane: [each.name for each in jobs] for lane, jobs in made.members.items()}


class TestPlace:
    def test_a_job_opens_a_lane_where_there_is_room(self) -> None:
        assert names(lanes(member("a", 40, 10, 0)).place(member("b", 40, 10))) == {0: ["a"], 1: ["b"]}

    def test_a_job_one_byte_too_large_for_a_lane_of_its_own_joins_another(self) -> None:
        assert names(lanes(member("a", 41, 10, 0)).place(member("b", 40, 10))) == {0: ["a", "b"]}

    def test_a_job_joins_the_smallest_lane_that_is_large_enough(self) -> None:
        made = lanes(member("a", 50, 0, 0), member("b", 30, 0, 1), member("c", 10, 0, 2)).place(member("d", 25, 5))
        assert names(made) == {0: ["a"], 1: ["b", "d"], 2: ["c"]}

    def test_a_lane_grows_where_none_is_large_enough(self) -> None:
        made = lanes(member("a", 50, 0, 0), member("b", 10, 0, 1)).place(member("c", 55, 0))
        assert names(made) == {0: ["a", "c"], 1: ["b"]}
        assert made is not None
        assert made.sizes == {0: 55, 1: 10}

    def test_persistent_bytes_that_do_not_fit_keep_a_job_out(self) -> None:
        assert lanes(member("a", 60, 20, 0)).place(member("b", 10, 21)) is None
        assert lanes(member("a", 60, 20, 0)).place(member("b", 10, 20)) is not None

    def test_there_are_never_more_lanes_than_allowed(self) -> None:
        assert names(lanes(member("a", 10, 0, 0)).place(member("b", 10), most_lanes=1)) == {0: ["a", "b"]}

    def test_inference_instances_share_a_lane_even_where_more_would_fit(self) -> None:
        first = member("a", 10, 1, 0, kind=JobKind.INFERENCE)
        assert names(lanes(first).place(member("b", 20, 1, kind=JobKind.INFERENCE))) == {0: ["a", "b"]}


class TestSize:
    def test_a_lane_shrinks_when_its_largest_member_leaves(self) -> None:
        assert lanes(member("a", 60, 0, 0), member("b", 20, 0, 0)).free_bytes == 40
        assert lanes(member("b", 20, 0, 0)).free_bytes == 80

    def test_two_iterations_that_run_in_one_lane_both_count_until_one_ends(self) -> None:
        a, b = (member(name, 30, 0, 0, state=JobState.RUNNING) for name in "ab")
        assert lanes(a, b).sizes == {0: 60}
        assert lanes(a, member("b", 30, 0, 0)).sizes == {0: 30}


class TestMerge:
    def test_the_two_smallest_lanes_merge_first(self) -> None:
        three = lanes(member("a", 30, 0, 0), member("b", 50, 0, 1), member("c", 20, 0, 2))
        assert names(three.merged()) == {0: ["a", "c"], 1: ["b"]}

    def test_lanes_merge_for_a_job_that_is_larger_than_any_of_them(self) -> None:
        full = lanes(member("a", 50, 0, 0), member("b", 50, 0, 1))
        large = member("c", 90)
        assert full.place(large) is None
        assert names(full.make_room(large).place(large)) == {0: ["a", "b", "c"]}

    def test_no_more_lanes_merge_than_needed(self) -> None:
        three = lanes(member("a", 40, 0, 0), member("b", 40, 0, 1), member("c", 20, 0, 2))
        assert names(three.make_room(member("d", 60))) == {0: ["a", "c"], 1: ["b"]}

    def test_nothing_merges_for_a_job_that_would_still_not_fit(self) -> None:
        full = lanes(member("a", 40, 20, 0), member("b", 20, 20, 1))
        assert full.make_room(member("c", 61)) is full

    def test_merging_while_iterations_run_gives_room_only_when_they_end(self) -> None:
        large = member("c", 90, 1)
        running = lanes(*(member(name, 50, 0, lane, state=JobState.RUNNING) for lane, name in enumerate("ab")))
        merged = running.make_room(large)
        assert len(merged.members) == 1
        assert merged.place(large) is None

    def test_a_smaller_budget_merges_lanes(self) -> None:
        assert len(lanes(member("a", 50, 0, 0), member("b", 50, 0, 1), capacity=99).made_safe().members) == 1


class TestSpread:
    def test_a_waiting_job_gets_a_lane_of_its_own_again(self) -> None:
        shared = lanes(member("a", 50, 0, 0, state=JobState.RUNNING), member("b", 40, 0, 0))
        assert names(shared.spread()) == {0: ["a"], 1: ["b"]}

    def test_a_job_stays_in_its_lane_where_there_is_no_room(self) -> None:
        shared = lanes(member("a", 61, 0, 0, state=JobState.RUNNING), member("b", 40, 0, 0))
        assert shared.spread() is shared

    def test_inference_instances_stay_packed(self) -> None:
        shared = lanes(*(member(name, 1, 0, 0, kind=JobKind.INFERENCE, requests=(0,)) for name in "ab"))
        assert shared.spread() is shared
