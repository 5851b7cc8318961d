"""Data on the hollow GPU through evictions: .venv-cuda/bin/python tests/campaigns/cuda_evictions.py 1000."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from hollow.sharing.running import Hollow

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="npt-") as name:
        facts = Hollow(Path(name)).run("evictions", TURNS=sys.argv[1])
    print(facts)
    assert facts["wrong"] == 0
    assert facts["same"]
