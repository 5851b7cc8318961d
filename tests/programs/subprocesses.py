"""A program that never imports torch starts two trainings, one after the other."""

import pathlib
import subprocess
import sys

simple = pathlib.Path(__file__).parent / "simple.py"
for lr in ("0.2", "0.02"):
    subprocess.run([sys.executable, simple, "--lr", lr], check=True)
