"""Runs programs in a fresh process, asking for cuda with the stand-in and then for a named device without it.

`run.py PROGRAM=DEVICE ...` prints one JSON line: by program, what each of the two runs gave, or how it failed.
"""

import json
import runpy
import sys
import traceback
from pathlib import Path

import torch

from neaptide.devices.soft import as_cuda as cuda_as_soft

torch.set_num_threads(1)


def outcome(program, arguments):
    sys.argv = [program, *arguments]
    try:
        made = runpy.run_path(str(Path(__file__).parent / f"{program}.py"), run_name="__main__")
    except BaseException:
        return {"error": traceback.format_exc()}
    return {"losses": [float(loss).hex() for loss in made["losses"]], "device": str(made["device"])}


outcomes = {}
for program, device in [argument.split("=") for argument in sys.argv[1:]]:
    cuda_as_soft.install()
    as_cuda = outcome(program, [])
    cuda_as_soft.uninstall()
    outcomes[program] = {"cuda": as_cuda, "named": outcome(program, ["--device", device])}
print(json.dumps(outcomes))
