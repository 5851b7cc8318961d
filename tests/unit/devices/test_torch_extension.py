"""Which objects of earlier builds a new build may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from neaptide.torch_extension import remove_outdated_objects

BUILT_SECONDS = 1000


class Workshop:
    """A folder with two sources and a header, and the folder in which they were compiled at BUILT_SECONDS."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "workshop"
        self.folder.mkdir()
        self.files = [folder / name for name in ("a.cpp", "b.cpp", "common.h")]
        for path in self.files:
            self.write(path.name, "first", BUILT_SECONDS - 100)
        self.prepare()
        for name in ("a.o", "b.o"):
            (self.folder / name).touch()
            os.utime(self.folder / name, (BUILT_SECONDS, BUILT_SECONDS))

    def write(self, name: str, text: str, seconds: int) -> None:
        path = self.folder.parent / name
        path.write_text(text)
        os.utime(path, (seconds, seconds))

    def prepare(self, tools: str = "torch 1") -> list[str]:
        """The objects that are left for the next build."""
        remove_outdated_objects(self.folder, self.files, tools)
        return sorted(path.name for path in self.folder.glob("*.o"))


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_objects_stay_while_no_file_changes(workshop: Workshop) -> None:
    assert workshop.prepare() == ["a.o", "b.o"]


def test_objects_stay_when_the_changed_file_is_newer(workshop: Workshop) -> None:
    workshop.write("a.cpp", "second", BUILT_SECONDS + 1)
    assert workshop.prepare() == ["a.o", "b.o"]


@pytest.mark.parametrize("name", ["a.cpp", "common.h"])
@pytest.mark.parametrize("seconds", [BUILT_SECONDS - 500, BUILT_SECONDS])
def test_no_object_stays_when_a_file_changed_and_is_not_newer(workshop: Workshop, name: str, seconds: int) -> None:
    workshop.write(name, "second", seconds)
    assert workshop.prepare() == []


def test_no_object_stays_when_torch_changed(workshop: Workshop) -> None:
    assert workshop.prepare("torch 2") == []


def test_no_object_stays_from_a_build_that_left_no_record(workshop: Workshop) -> None:
    (workshop.folder / "compiled.json").write_text("{")
    assert workshop.prepare() == []
