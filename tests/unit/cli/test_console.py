"""What commands print obeys nobody but rich."""

from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from neaptide.cli.console import stdout

CODES = {"\x1b", "\x9b", "\x9c", "\u202e"}


@pytest.mark.parametrize("dispensable", [True, False])
def test_a_console_prints_no_code_that_a_name_brought_along(
    capsys: pytest.CaptureFixture[str], dispensable: bool
) -> None:
    table = Table("job")
    table.add_row("c\x1b[2J")
    out = stdout(dispensable)
    out.print("job a\x1b[2J failed: \x9b\u202e")
    out.print(Text("b\x1b]0;x\x9c", "bold"))
    out.print(table)
    said = capsys.readouterr().out
    assert r"job a\x1b[2J failed: \x9b\u202e" in said
    assert r"b\x1b]0;x\x9c" in said
    assert not CODES & set(said)
