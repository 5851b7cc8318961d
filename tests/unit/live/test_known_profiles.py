"""What earlier runs measured, in files: found again, bounded, and never trusted when damaged."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from neaptide.core.traces.leases import LeaseOverhead
from neaptide.live.job.known_profiles import MOST_SECONDS, KnownProfile, KnownProfiles
from tides import MIB, tide

TRACE = tide("job", 50, 0.004, 10 * MIB, 40 * MIB)
KNOWN = KnownProfile(TRACE, LeaseOverhead(3, 5, 1), serves=False)


def test_what_was_saved_is_found_under_its_name_alone(tmp_path: Path) -> None:
    profiles = KnownProfiles(tmp_path / "profiles")
    assert profiles.find("a") is None
    profiles.save("a", KNOWN)
    found = profiles.find("a")
    assert found is not None
    assert (found.trace.peak_bytes, found.overhead, found.serves) == (TRACE.peak_bytes, KNOWN.overhead, False)
    assert found.peak_bytes == TRACE.peak_bytes + 3
    assert profiles.find("b") is None


@pytest.mark.parametrize("keep", [0, 1, 10, 200, -1])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, keep: int) -> None:
    profiles = KnownProfiles(tmp_path)
    profiles.save("a", KNOWN)
    content = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(content[:keep])
    assert profiles.find("a") is None
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    (tmp_path / "a").write_bytes(flipped)
    assert profiles.find("a") is None


def test_an_old_file_is_not_used_and_is_removed_when_another_is_saved(tmp_path: Path) -> None:
    profiles = KnownProfiles(tmp_path)
    profiles.save("old", KNOWN)
    before = time.time() - MOST_SECONDS - 60
    os.utime(tmp_path / "old", (before, before))
    assert profiles.find("old") is None
    profiles.save("new", KNOWN)
    assert {path.name for path in tmp_path.iterdir()} == {"new"}


def test_the_oldest_files_go_when_there_are_too_many_or_too_many_bytes(tmp_path: Path) -> None:
    profiles = KnownProfiles(tmp_path, most_files=3)
    for number in range(5):
        profiles.save(f"{number}", KNOWN)
        os.utime(tmp_path / f"{number}", (time.time() - 100 + number,) * 2)
    assert {path.name for path in tmp_path.iterdir()} == {"2", "3", "4"}
    size = (tmp_path / "2").stat().st_size
    KnownProfiles(tmp_path, most_bytes=2 * size).save("5", KNOWN)
    assert {path.name for path in tmp_path.iterdir()} == {"4", "5"}


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    profiles = KnownProfiles(tmp_path / "file" / "profiles")
    profiles.save("a", KNOWN)
    assert profiles.find("a") is None
