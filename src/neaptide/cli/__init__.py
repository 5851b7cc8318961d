"""The `neaptide` command. `app` is its root and knows the commands by name; `commands` has one file for each.

`running` is what `neaptide run` does; `device_flags`, `output_files` and `console` are shared by the commands. Nothing
imports this package.
"""

from neaptide.cli.app import main

__all__ = ["main"]
