"""A process that was started without stdin, stdout or stderr."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, sys
from pathlib import Path
for number in (0, 2):
    os.close(number)
from neaptide.standard_files import fill_standard_files
fill_standard_files()
named = [os.readlink(f"/proc/self/fd/{number}") for number in (0, 2)]
print(named, os.get_inheritable(0), os.get_inheritable(2), os.open("/dev/zero", os.O_RDONLY) > 2)
"""


def test_files_that_are_closed_are_opened_so_that_nothing_else_takes_their_numbers() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "['/dev/null', '/dev/null'] True True True\n"
