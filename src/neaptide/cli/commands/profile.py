"""`neaptide profile`: the memory and the time of one iteration of a model, a script or a saved trace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from neaptide.cli.output_files import check_writable
from neaptide.cli.target import target_kind

if TYPE_CHECKING:  # --help loads none of these
    from neaptide.core.device import DeviceSpec
    from neaptide.core.traces.trace import Trace

SCRIPT_FAILED = 1


def profile(
    target: Annotated[str | None, Parameter(help="A model, a Python script, or a trace file.")] = None,
    /,
    *arguments: Annotated[str, Parameter(help="Everything after a script is passed to it, options too.")],
    batch: Annotated[int | None, Parameter(help="Samples per iteration; each model has its default.")] = None,
    device: Annotated[
        str | None, Parameter(help="Device to estimate for, V100-16GB if none is named; or a TOML file describing one.")
    ] = None,
    scale: Annotated[
        Literal["paper", "tiny"] | None, Parameter(help="Size of the model: as published, or tiny.")
    ] = None,
    inference: Annotated[bool, Parameter(help="Serve the model instead of training it.")] = False,
    measure: Annotated[bool, Parameter(help="Run the model on this machine instead of estimating it.")] = False,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Write the trace to this file.")] = None,
    figure: Annotated[Path | None, Parameter(help="Draw a figure into this PNG, SVG or PDF file.")] = None,
) -> int:
    """Show how much memory one iteration of a model or a script needs, and when."""
    from neaptide.scenarios import sources

    if target is None:
        raise ValueError(f"name a model, a script or a trace file; the models are {sources.zoo_names()}")
    kind = target_kind(target)
    options = sources.ModelOptions(batch=batch, device=device, scale=scale, inference=inference, measure=measure)
    check_writable(output, figure=figure)
    _check_replaces_only_a_trace(output)
    if kind == "script":
        options.refuse(f"{target} is a script, and its own options follow its name")
        return _profile_script(Path(target), arguments, output, figure)
    if arguments:
        raise ValueError(f"{target} is a {kind} and takes no arguments, but {arguments[0]!r} follows it")
    if kind == "trace":
        from neaptide.capture.files import load_trace

        options.refuse(f"{target} is a trace, and what it was profiled with is fixed")
        _show(load_trace(Path(target)), None, output, figure)
    else:
        _show(*sources.model_trace(target, options), output, figure)
    return 0


def _profile_script(path: Path, arguments: tuple[str, ...], output: Path | None, figure: Path | None) -> int:
    from neaptide.core.text import complain
    from neaptide.reporting.terminal.failure import print_failure
    from neaptide.scenarios.sources import run_script

    run = run_script(path, arguments)
    sys.stdout.flush()
    if run.error is not None and not isinstance(run.error, KeyboardInterrupt):
        print_failure(run.error, path)
        how = f"exit code {run.error.code}" if isinstance(run.error, SystemExit) else type(run.error).__name__
        seen = "" if run.trace is None else "; this is the profile so far"
        complain(f"{path} ended with {how}{seen}")
    if run.trace is not None:
        print()
        note = "" if run.complete else "The script ended before a profile had all it wants: its times are less exact."
        _show(run.trace, None, output, figure, note)
    if isinstance(run.error, KeyboardInterrupt):
        raise run.error
    if run.error is None and run.trace is None:
        raise ValueError(
            f"no whole iteration was seen in {path}: a profile needs an optimizer that steps at least twice, "
            "or a model that is called without one"
        )
    return 0 if run.error is None else SCRIPT_FAILED


def _check_replaces_only_a_trace(output: Path | None) -> None:
    """Raise ValueError if the trace would replace a file that is not a trace."""
    if output is not None and output.exists() and not _is_trace(output):
        raise ValueError(f"{output} exists and is not a trace: remove it first, or write to another file")


def _is_trace(path: Path) -> bool:
    try:
        return target_kind(str(path.absolute())) == "trace"
    except ValueError:
        return False


def _show(trace: Trace, device: DeviceSpec | None, output: Path | None, figure: Path | None, note: str = "") -> None:
    """Write the files, then print, so that a closed pipe loses no file."""
    from neaptide.capture.files import save_trace
    from neaptide.cli import console
    from neaptide.reporting.terminal.profile_summary import print_profile

    if output is not None:
        save_trace(trace, output)
    if figure is not None:
        from neaptide.reporting.figures.profile import save_profile

        save_profile(trace, figure)
    out = console.stdout()
    print_profile(trace, out, device)
    if note:
        out.print(f"\n{note}", style="yellow")
    written = [
        f"{what} written to {path}" for what, path in (("trace", output), ("figure", figure)) if path is not None
    ]
    if written:
        out.print("\n" + "\n".join(written), soft_wrap=True)
