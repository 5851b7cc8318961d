"""The `neaptide` command."""

from neaptide.cli.app import main

__all__ = ["main"]
