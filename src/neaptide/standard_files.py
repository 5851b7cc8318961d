"""Stdin, stdout and stderr of a process that was started without one of them."""

from __future__ import annotations

import os


def fill_standard_files() -> None:
    """Open those that are closed: else sockets and logs get their numbers, and take what is printed."""
    while (lowest := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(lowest, True)
    os.close(lowest)
