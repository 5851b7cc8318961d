"""Runs the test suite as on other machines: busy, with one core, without AVX-512, not as root, with a clock that jumps.

python tests/campaigns/any_machine.py [CIRCUMSTANCE ...] [--times N] [-- ARGUMENTS OF PYTEST]. Run by root, it tries
another user too, in a copy of the tree.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
USER = 65534  # nobody
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
SPIN = "while True: pass"


def suite(words: list[str], environment: dict[str, str], prefix: tuple[str, ...] = (), tree: Path = ROOT) -> int:
    """Run pytest in a tree; its exit code."""
    command = [*prefix, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    search = {"PYTHONPATH": str(tree / "src")}
    return subprocess.run(command, cwd=tree, env={**os.environ, **search, **environment}, check=False).returncode


def as_it_is(words: list[str]) -> int:
    return suite(words, {})


def busy(words: list[str]) -> int:
    loops = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2)]
    try:
        return suite(words, {})
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def one_core(words: list[str]) -> int:
    return suite(words, {}, ("taskset", "-c", "0"))


def avx2(words: list[str]) -> int:
    return suite(words, AVX2)


def clock(words: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "clock.so"
        source = Path(__file__).with_name("clock_that_jumps.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", str(source), "-o", str(library), "-ldl"], check=True)
        return suite(words, {"LD_PRELOAD": str(library)})


def user(words: list[str]) -> int:
    if os.getuid() != 0:
        return as_it_is(words)
    with _copy_for(USER) as (tree, home):
        drop = (
            *f"setpriv --reuid={USER} --regid={USER} --clear-groups".split(),
            "--inh-caps=-all",
            "--bounding-set=-all",
        )
        places = {"HOME": str(home), "NEAPTIDE_CACHE": str(home / "cache"), "TMPDIR": str(home)}
        return suite(words, places, (*_sees_python(home), *drop), tree)


@contextmanager
def _copy_for(uid: int) -> Iterator[tuple[Path, Path]]:
    """A copy of the tree and a home that belong to a user, with what root has built so far."""
    with tempfile.TemporaryDirectory() as folder:
        tree, home = Path(folder) / "tree", Path(folder) / "home"
        ignored = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, tree, ignore=ignored)
        home.mkdir()
        built = Path(os.environ.get("NEAPTIDE_CACHE") or Path.home() / ".cache" / "neaptide")
        if built.exists():
            shutil.copytree(built, home / "cache")
        os.chmod(folder, 0o755)
        subprocess.run(["chown", "-R", f"{uid}:{uid}", str(tree), str(home)], check=True)
        yield tree, home


def _sees_python(home: Path) -> tuple[str, ...]:
    """A command that lets others see a Python in root's home, in a view of the file system of their own."""
    base = Path(sys.base_prefix)
    if Path.home() not in base.parents:
        return ()
    view = home / "view"
    inside = view / base.relative_to(Path.home())
    inside.mkdir(parents=True)
    mounts = f"mount --make-rprivate / && mount --bind {base} {inside} && mount --rbind {view} {Path.home()}"
    return ("unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh")


CIRCUMSTANCES = {each.__name__.replace("_", "-"): each for each in (as_it_is, busy, one_core, avx2, user, clock)}


def main() -> int:
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("circumstances", nargs="*", choices=[*CIRCUMSTANCES, []])
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args(words[:at])
    pytest = words[at + 1 :] or ["-n", str(os.cpu_count()), "--dist", "worksteal"]
    failed = []
    for name in options.circumstances or CIRCUMSTANCES:
        for number in range(options.times):
            began = time.monotonic()
            code = CIRCUMSTANCES[name](pytest)
            print(f"{name} {number + 1}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
            if code:
                failed.append(f"{name} {number + 1}")
    print("failed: " + ", ".join(failed) if failed else "all passed")
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
