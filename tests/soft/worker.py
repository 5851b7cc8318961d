"""A process of its own on a board: trains on request and says what happened, one JSON line per command.

Run as `python worker.py MODEL STEPS`: waits for a line on stdin, trains, prints the digest of the final parameters.
"""

from __future__ import annotations

import hashlib
import json
import sys

import torch
from training import train

import neaptide.devices.soft  # noqa: F401 - makes the device


def main() -> None:
    model, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    try:
        run = train(model, "soft", "adamw", steps=steps)
    except torch.OutOfMemoryError as error:
        print(json.dumps({"error": str(error).split("\n")[0]}), flush=True)
        return
    digest = hashlib.sha256()
    for tensor in (*run.losses, *run.parameters):
        digest.update(tensor.numpy().tobytes())
    print(json.dumps({"digest": digest.hexdigest()}), flush=True)


main()
