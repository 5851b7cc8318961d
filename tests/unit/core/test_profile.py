"""What a profile says of a trace."""

import pytest

from builders import Op, make_trace
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Phase
from views import tide

TRACE = make_trace(
    [Op(seconds=1.0, fill=0.2), Op(seconds=3.0, fill=0.6), Op(seconds=4.0, fill=1.0, phase=Phase.BACKWARD)]
)


def test_a_profile_gives_the_utilisation_of_the_iteration() -> None:
    assert Profile.of(TRACE).utilisation == pytest.approx(6 / 8)


def test_a_profile_gives_the_duration_of_the_longest_op() -> None:
    assert Profile.of(TRACE).longest_ns == 4_000_000_000


def test_a_profile_gives_the_highest_need_from_a_position_on() -> None:
    profile = tide(2, 6, 3, step_ns=10)
    assert [profile.remaining_peak(at) for at in (0, 10, 19, 20, 29, 30, 99)] == [6, 6, 6, 3, 3, 0, 0]
