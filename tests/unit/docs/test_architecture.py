"""docs/architecture.md is the map: it has every room."""

from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
PACKAGE = REPOSITORY / "src" / "neaptide"
MAP = REPOSITORY / "docs" / "architecture.md"


def test_the_map_names_every_room() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    table = MAP.read_text().partition("## Rooms")[2].partition("## Where to find it")[0]
    assert [room for room in sorted(rooms) if room not in table] == []
