"""`neaptide bench`: run a file of `benchmarks/` and show its figures."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

import neaptide

if TYPE_CHECKING:
    from rich.console import Console

    from neaptide.reporting.terminal.bench import Figure

FAILED = 1


class NotABenchmarkError(ValueError):
    """The file defines no benchmark."""


def bench(
    name: Annotated[str | None, Parameter(help="A file of benchmarks/ in a clone, without .py.")] = None,
    /,
    *,
    json: Annotated[bool, Parameter(help="Also print one JSON object, on the last line.")] = False,
    check: Annotated[bool, Parameter(help="Exit with 1 if a goal is missed.")] = False,
) -> int:
    """Run one of the project's benchmarks and show its figures beside their goals."""
    from neaptide.cli import console
    from neaptide.core.text import complain
    from neaptide.reporting.terminal.bench import figures_json, figures_table
    from neaptide.reporting.terminal.failure import print_failure

    path = find_benchmark(name, benchmark_directories())
    out = console.stdout()
    found: list[Figure] = []
    error: Exception | None = None
    with _growing_table(path.stem, out) as show:
        try:
            for figure in run_benchmark(path):
                found.append(figure)
                show(found)
        except NotABenchmarkError:
            raise
        except Exception as raised:  # the error is shown below the figures so far
            error = raised
    if found:
        out.print(figures_table(path.stem, found))
    if error is not None:
        print_failure(error, path)
        complain(f"benchmark {path.stem} failed")
        return FAILED
    if json:
        print(figures_json(path.stem, found))
    return FAILED if check and any(figure.met is False for figure in found) else 0


@contextmanager
def _growing_table(name: str, out: Console) -> Iterator[Callable[[Sequence[Figure]], None]]:
    """Show the figures so far: on a terminal in a table that vanishes at the end, elsewhere line by line on stderr."""
    from rich.live import Live

    from neaptide.core.text import print_to_stderr
    from neaptide.reporting.terminal.bench import figure_line, figures_table

    if not out.is_terminal:
        yield lambda figures: print_to_stderr(figure_line(figures[-1]))
        return
    with Live(f"running benchmark {name}", console=out, transient=True) as live:
        yield lambda figures: live.update(figures_table(name, figures), refresh=True)


def benchmark_directories() -> list[Path]:
    """The folders of benchmarks: in the checkout of this package, and in the current directory."""
    checkout = Path(neaptide.__file__).resolve().parents[2] / "benchmarks"
    here = Path.cwd() / "benchmarks"
    return [path for path in dict.fromkeys((checkout, here)) if path.is_dir()]


def find_benchmark(name: str | None, directories: Sequence[Path]) -> Path:
    """The file of a benchmark; ValueError with the names there are."""
    if not directories:
        raise ValueError("there is no directory benchmarks here; benchmarks come with a checkout of neaptide")
    found: dict[str, Path] = {}
    for directory in directories:
        for path in sorted(directory.glob("[!_]*.py")):
            found.setdefault(path.stem, path)
    names = ", ".join(sorted(found)) or "none"
    if name is None:
        raise ValueError(f"name a benchmark; there are {names}")
    if name not in found:
        near = difflib.get_close_matches(name, found, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(f"no benchmark is called {name!r}; {hint}there are {names}")
    return found[name]


def run_benchmark(path: Path) -> Iterator[Figure]:
    """Load a benchmark's file and run it, figure by figure."""
    from neaptide.reporting.terminal.bench import Figure

    # Under a dotted name, so that `benchmarks/profile.py` does not hide the standard library's.
    spec = spec_from_file_location(f"benchmarks.{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.parent))
    spec.loader.exec_module(module)
    if not callable(getattr(module, "figures", None)):
        raise NotABenchmarkError(f"{path} defines no function figures()")
    for figure in module.figures():
        if not isinstance(figure, Figure):
            raise NotABenchmarkError(f"figures() of {path} must yield Figure, not {figure!r}")
        yield figure
