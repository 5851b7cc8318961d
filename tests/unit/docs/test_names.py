"""README and the pages name files, and names in these files, that exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PACKAGE = REPOSITORY / "src" / "neaptide"
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]

# Files of a reader's own, of torch, and files that a command writes.
ELSEWHERE = re.compile(r"my_device/|test/test_|demo/|neaptide-runs/|docs/sweep\.md")
A_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?")
A_FILE = re.compile(r"[\w./-]+\.(?:py|h|cpp|toml|md)")
A_NAME = re.compile(r"`([A-Za-z_][\w.]*(?:::\w+)?)`(?: of [a-z ]+)? in `([^`]+)`")


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def folders(page: Path) -> list[Path]:
    """Where the paths of a page may start; a page about one device says that they start in the device's folder."""
    own = re.findall(r"^Paths start at `src/neaptide/([\w/]+)`", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [PACKAGE, REPOSITORY, page.parent, *(PACKAGE / folder for folder in own)]


def paths(page: Path) -> Iterator[str]:
    yield from (text for text in re.findall(r"`([^`\n]+)`", prose(page)) if A_PATH.fullmatch(text))


def find(page: Path, path: str) -> Path | None:
    return next((folder / path for folder in folders(page) if (folder / path).exists()), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_paths_on_a_page_exist(page: Path) -> None:
    missing = [path for path in paths(page) if not ELSEWHERE.match(path) and find(page, path) is None]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_name_that_a_page_finds_in_a_file_is_there(page: Path) -> None:
    named = [(name, file) for name, file in A_NAME.findall(prose(page)) if A_FILE.fullmatch(file)]
    for name, file in named:
        found = find(page, file)
        assert found is not None, file
        last = re.split(r"::|\.", name)[-1]
        assert re.search(rf"\b{last}\b", found.read_text(encoding="utf-8")), f"{name} in {file}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target, _, heading in (link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", prose(page))):
        if target.startswith("http"):
            continue
        other = page.parent / target if target else page
        assert other.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)$", other.read_text(encoding="utf-8"), flags=re.MULTILINE)
            anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
            assert heading in anchors, f"{target}#{heading}"


def test_the_pages_name_many_files() -> None:
    assert sum(1 for page in PAGES for _ in paths(page)) > 200
    assert sum(len(A_NAME.findall(prose(page))) for page in PAGES) > 30
