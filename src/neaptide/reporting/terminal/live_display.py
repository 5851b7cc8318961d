"""A live run shown while it goes on: a table drawn again and again, or lines if the output is not a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from neaptide.core.text import printable
from neaptide.live.protocol.messages import Status
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.formats import format_duration
from neaptide.reporting.terminal.live_lines import LiveLines
from neaptide.reporting.terminal.live_table import LiveTable


class LiveDisplay:
    """A context manager. Its table disappears at the end; lines about ended jobs stay."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines = LiveLines()
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(
                console=console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, status: Status, running: Sequence[str] = ()) -> None:
        """Show the status. `running` names jobs whose processes run, even if the daemon does not know them yet."""
        if self._live is not None:
            known = {job.name for job in status.jobs}
            self._live.update(LiveTable(status, [name for name in running if name not in known]), refresh=True)
            return
        for line in self._lines.lines(status):
            self._console.print(line, soft_wrap=True)
        self._console.file.flush()

    def ended(self, result: JobResult) -> None:
        """Print how a job's process ended, with its last lines of output if it failed."""
        after = f"after {format_duration(result.seconds)}"
        if not result.failed:
            how = "was interrupted" if result.asked_to_end else "ended"
            self._console.print(Text(f"{result.name} {how} {after}", "dim"))
            return
        said = f"{result.output} ends with" if result.last_lines else f"{result.output} is empty"
        self._console.print(Text(f"{result.name} failed {after}: {result.how}; {said}", "bold red"))
        for line in result.last_lines:
            self._console.print(Text("  " + printable(line)), soft_wrap=True)
