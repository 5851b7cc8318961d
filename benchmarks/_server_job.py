"""A server for the benchmark `servers`: answers each line of its input with one of its output.

A network of 20 MiB at rest, whose calls need 12 MiB more and little compute.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import neaptide.devices.soft  # noqa: F401

WORDS, WIDTH, BATCH = 5120, 1024, 1024


def main() -> None:
    """Serve until the input ends."""
    network = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8)).to("soft").eval()
    words = torch.arange(BATCH) % WORDS
    for _ in sys.stdin:
        with torch.no_grad():
            answer = network(words.to("soft")).cpu().sum().item()
        print(answer, flush=True)


if __name__ == "__main__":
    main()
