"""The examples of docs/api.md run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from neaptide.reporting.logs.run_folder import EVENTS

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
EXAMPLES = re.findall(r"## ([^\n]*)\n.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(("title", "example"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_an_example_of_the_page_runs(title: str, example: str, tmp_path: Path) -> None:
    program = tmp_path / "example.py"
    program.write_text(example, encoding="utf-8")
    # A short path, for the daemon's socket, where the examples meet no daemon of this machine's user.
    with TemporaryDirectory() as runtime:
        ended = subprocess.run(
            [sys.executable, str(program)],
            cwd=tmp_path,
            env={**os.environ, "XDG_RUNTIME_DIR": runtime},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    if title == "Real jobs":
        lines = [line.split()[:4] for line in ended.stdout.splitlines()]
        assert lines == [["a", "exit", "code", "0"], ["b", "exit", "code", "0"]]
        assert (tmp_path / "run-1" / EVENTS).stat().st_size > 0
