"""A process that holds as many chunks of a GPU's memory as each line says; `calls` makes it say what pages cost so far.

Call it with the path of the board and the bytes of a chunk.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from neaptide.devices import find_kind


def main(board: str, chunk_bytes: int) -> None:
    """Until the input ends."""
    kind = find_kind("cuda")
    kind.prepare(lambda: kind.attach(Path(board), "pages").release_launches())
    blocks: list[torch.Tensor] = []
    for line in sys.stdin:
        if line == "calls\n":
            from neaptide.devices.cuda.extension import native

            print(json.dumps(native.page_calls()), flush=True)
            continue
        level = int(line)
        del blocks[level:]
        while len(blocks) < level:
            blocks.append(torch.empty(chunk_bytes, dtype=torch.uint8, device="cuda"))
        print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
