"""Runs the programs of tests/programs, each alone and then beside a neighbour under a tight budget; prints a table.

python tests/campaigns/programs.py [NAME ...] [--out table.md]. A package that is missing skips a program. Programs of
packages that this Python does not have: run it with a Python that has them (docs/programs.md says how).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from beside import Beside, Outcome
from corpus import programs

PER_DAEMON = 30  # programs, then a new daemon and a new neighbour; the daemon remembers 64 jobs


def row(outcome: Outcome) -> str:
    program = outcome.program
    if program.refused:
        line = next((line for line in outcome.ran.errors.splitlines() if program.refused in line), program.refused)
        became = f"refused: `{line.removeprefix('neaptide: ').strip()[:110]}`"
    elif program.jobs:
        became = "shared" if outcome.jobs <= 1 else f"shared, {outcome.jobs} jobs"
    else:
        became = "does not use the device"
    same = "; ".join(outcome.wrong) if outcome.wrong else f"all {len(outcome.ran.losses())} lines"
    if not outcome.wrong and not outcome.ran.losses():
        same = "prints none"
    steps = f"{outcome.neighbour_steps}, longest pause {outcome.longest_pause_seconds:.1f} s"
    return f"| {program.name} | {program.about} | {became} | {same} | {steps} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--logs", type=Path, help="a folder for what failing programs printed")
    options = parser.parse_args()
    corpus = programs()
    chosen = [corpus[name] for name in options.names] or list(corpus.values())
    lines = [
        "| program | what it does | shared or refused | losses bit-identical | neighbour's steps |",
        "|---|---|---|---|---|",
    ]
    print(*lines, sep="\n", flush=True)
    worlds = _Worlds()
    failed, skipped, ran = [], [], 0
    try:
        for program in chosen:
            if program.missing:
                skipped.append(f"{program.name} ({', '.join(program.missing)})")
                continue
            began = time.monotonic()
            outcome = worlds.current().run(program)
            ran += 1
            lines.append(row(outcome))
            print(lines[-1], f"{time.monotonic() - began:.0f} s", flush=True)
            if outcome.wrong:
                failed.append(program.name)
                if options.logs:
                    options.logs.mkdir(parents=True, exist_ok=True)
                    (options.logs / f"{program.name}.log").write_text(outcome.ran.out + outcome.ran.errors)
            if ran % PER_DAEMON == 0 or (outcome.wrong and not worlds.current().is_well()):
                worlds.end()
    finally:
        worlds.end()
    failed += ["neighbour"] * worlds.changed
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")
    print(f"{ran} programs, {len(failed)} failed: {', '.join(failed)}; skipped: {', '.join(skipped)}")
    return bool(failed)


class _Worlds:
    """A daemon with a neighbour, and the next one after that has ended."""

    def __init__(self) -> None:
        self._beside: Beside | None = None
        self.changed = 0  # neighbours whose losses were not those that they have alone

    def current(self) -> Beside:
        self._beside = self._beside or Beside()
        return self._beside

    def end(self) -> None:
        if self._beside is not None:
            self.changed += not self._beside.neighbour_is_unchanged()
            self._beside.close()
            self._beside = None


if __name__ == "__main__":
    raise SystemExit(main())
