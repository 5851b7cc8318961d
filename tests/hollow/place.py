"""Where the hollow library is, if this Python's torch is the CUDA build that runs on it."""

from __future__ import annotations

import sysconfig
from pathlib import Path

LIBRARY = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "lib" / "libhollow.so"
