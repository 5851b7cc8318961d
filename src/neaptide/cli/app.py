"""The command line's root: its commands, and how errors are shown.

Commands are named by import path and loaded when called, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from neaptide import __version__
from neaptide.cli.target import end_options_at_program, end_options_at_script
from neaptide.core.text import complain
from neaptide.standard_files import fill_standard_files

USER_ERROR, INTERRUPTED = 2, 130

app = App(
    name="neaptide",
    help="Run more PyTorch jobs on one GPU than fit in its memory.",
    version=__version__,
    help_format="plaintext",
    default_parameter=Parameter(negative=(), show_default=False),
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
app.command(
    "neaptide.cli.commands.profile:profile",
    help="Show how much memory one iteration of a model or a script needs, and when.",
    usage="Usage: neaptide profile [OPTIONS] TARGET [ARGUMENTS...]",
    help_epilogue="""\
A model is estimated for a device that need not be here. A script runs here, \
unchanged, until enough of its iterations were seen. Options go before a script.

  neaptide profile bert-large --batch 32 --device A100-40GB -o bert.trace
  neaptide profile --figure tide.pdf train.py --lr 0.1
  neaptide profile bert.trace
""",
)
app.command(
    "neaptide.cli.commands.plan:plan",
    help="Show what it costs to run one iteration in less memory.",
    usage="Usage: neaptide plan [OPTIONS] TARGET",
    help_epilogue="""\
Every planner makes a plan for the budget. Without --budget, it is the bytes that \
outlive an iteration, and half of those that do not. Nothing runs: times come from \
the trace and the device's data sheet.

  neaptide plan bert-base --batch 32 --device V100 --budget 3GiB
  neaptide plan resnet50.trace --budget 50% --planner best -o planned.trace
  neaptide plan bert.trace --planner best --planner my_planner.py
""",
)
app.command(
    "neaptide.cli.commands.simulate:simulate",
    help="Run a scenario of jobs under several policies in virtual time, and compare them.",
    usage="Usage: neaptide simulate [OPTIONS] SCENARIO",
    help_epilogue="""\
A scenario is a TOML file: jobs, a device, a budget, policies. Throughput is \
measured against temporal sharing, which always runs. docs/metrics.md says what \
each column is.

  neaptide simulate examples/scenarios/two-trainings.toml --figure shared.png
  neaptide simulate mine.toml --policy zico --policy my_policy.py --json
""",
)
app.command(
    "neaptide.cli.commands.reproduce:reproduce",
    help="Run a paper's experiment without its hardware and print our figures beside the published ones.",
    usage="Usage: neaptide reproduce [OPTIONS] PAPER|all",
    help_epilogue="""\
Networks are estimated for the paper's device, which need not be here; the \
estimates are kept, so that the first run takes longest. docs/papers.md says what \
each experiment shows.

Sharing: zico, salus, herald, wavelet, gandiva, antman, corner (servers beside \
training, and Tally's table). One job in less memory: superneurons, checkmate, \
capuchin, gist, echo. `all` runs every paper and writes one page: each claim, the \
published figure and how we know it, ours, and whether the claim holds.

  neaptide reproduce zico --figure figures
  neaptide reproduce salus --json
  neaptide reproduce all --page claims.html
""",
)
app.command(
    "neaptide.cli.commands.run:run",
    help="Run several jobs, or one command, so that they share the device under one budget.",
    usage="Usage: neaptide run [OPTIONS] JOBS.toml\n       neaptide run [OPTIONS] -- COMMAND...",
    help_epilogue="""\
The programs are not changed. If a daemon runs, the jobs join it. If none runs, a \
file of jobs gets a daemon of its own, and a command starts one that other commands \
can join. The exit code is that of the command; for a file it is 1 if a job failed. \
It is 3 if all ended well and none was shared. NEAPTIDE_DEVICE chooses the device.

  neaptide run examples/jobs.toml
  neaptide run --name first --priority 2 -- python train.py --lr 0.1
""",
)
app.command(
    "neaptide.cli.commands.top:top",
    help="Show the jobs of the running daemon as they run.",
    usage="Usage: neaptide top",
)
app.command(
    "neaptide.cli.commands.report:report",
    help="Show a run, or compare runs of the same jobs, here and as one page.",
    usage="Usage: neaptide report [OPTIONS] FOLDER...",
    help_epilogue="""\
The page is one file that opens offline. Wall times are compared if one of the runs \
was made with neaptide run --without-neaptide one-after-the-other.

  neaptide report neaptide-runs/jobs-1
  neaptide report alone shared -o comparison.html
""",
)
app.command(
    "neaptide.cli.commands.replay:replay",
    help="Give a run's events to its policy, or to another one, and show where it decides differently.",
    usage="Usage: neaptide replay [OPTIONS] FOLDER",
)
app.command(
    "neaptide.cli.commands.up:up",
    help="Start the daemon that lets several jobs share the device under one budget.",
    usage="Usage: neaptide up [OPTIONS]",
    help_epilogue="""\
Jobs then join with neaptide run; neaptide down ends the daemon. Its socket is in \
the directory NEAPTIDE_RUNTIME, or else in the user's runtime directory. \
NEAPTIDE_DEVICE chooses the device.

  neaptide up --budget 6GiB
  neaptide up --policy zico --foreground
""",
)
app.command(
    "neaptide.cli.commands.down:down",
    help="End the daemon; its jobs go on under the budget, without a policy.",
    usage="Usage: neaptide down",
)
app.command(
    "neaptide.cli.commands.status:status",
    help="Show the daemon and its jobs.",
    usage="Usage: neaptide status [--json]",
)
app.command(
    "neaptide.cli.commands.doctor:doctor",
    help="Check whether this machine has what neaptide needs, and say how to get what is missing.",
    usage="Usage: neaptide doctor [--json]",
)
app.command(
    "neaptide.cli.commands.verify:verify",
    help="Run jobs on the device here, and judge whether it keeps what neaptide promises.",
    usage="Usage: neaptide verify [OPTIONS]",
    help_epilogue="""\
Two networks train alone and together, for about five minutes; --quick takes \
about two. A line per promise says whether it is kept, with figures. The exit code \
is 1 if one is not kept. NEAPTIDE_DEVICE chooses the device.

  neaptide verify
  NEAPTIDE_DEVICE=cuda neaptide verify -o my-gpu.json
""",
)
app.command(
    "neaptide.cli.commands.budget:budget",
    help="Show or change the budget of all jobs together while they run.",
    usage="Usage: neaptide budget [AMOUNT]",
)
app.command(
    "neaptide.cli.commands.bench:bench",
    help="Run one of the project's benchmarks and show its figures beside their goals.",
    usage="Usage: neaptide bench [OPTIONS] NAME",
)


def main(tokens: Sequence[str] | None = None) -> int:
    """Run a command line, this process's own if none is given, and return its exit code."""
    # Silences a warning from C++ that the profiler is deprecated; torch reads this when it is first imported.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    fill_standard_files()
    try:
        words = list(sys.argv[1:] if tokens is None else tokens)
        if words[:1] == ["profile"]:
            words[1:] = end_options_at_script(words[1:], app["profile"].assemble_argument_collection())
        elif words[:1] == ["run"]:
            words[1:] = end_options_at_program(words[1:], app["run"].assemble_argument_collection())
        code: int | None = app(words, exit_on_error=False, print_error=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # raises BrokenPipeError here if the reader is gone
        return code or 0
    except BrokenPipeError:  # as `neaptide profile ... | head` does
        from neaptide.cli.console import discard_output

        discard_output()
        return 141  # what a shell reports of a program that wrote into a closed pipe
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except (CycloptsError, ValueError, OSError) as error:
        if sys.flags.dev_mode:  # PYTHONDEVMODE=1: show developers the traceback
            raise
        complain(_one_line(error))
        return USER_ERROR


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, UnusedCliTokensError):
        command = " ".join(("neaptide", *(error.command_chain or ())))
        return f"{command} takes no further argument {(error.unused_tokens or [''])[0]!r}; {command} --help lists all"
    return " ".join(str(error).split())
