"""The file that prepares a job's process: it waits until torch is executed, whoever asks for torch before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from neaptide.live.protocol.job_settings import BOOTSTRAP

PROGRAMS = {
    "a library asks whether there is a torch": (
        "import importlib.util\n"
        "assert importlib.util.find_spec('torch') and importlib.util.find_spec('torch')\n"
        "import torch, json\n"
        "print('after', torch.version)\n",
        ["torch", "prepared", "after 2"],
    ),
    "a first import of torch fails": (
        "import os\n"
        "os.environ['TORCH_FAILS'] = '1'\n"
        "try:\n    import torch\nexcept ImportError:\n    print('failed')\n"
        "del os.environ['TORCH_FAILS']\n"
        "import torch\n",
        ["failed", "torch", "prepared"],
    ),
    "torch is imported lazily": (
        "import importlib.util, sys\n"
        "spec = importlib.util.find_spec('torch')\n"
        "spec.loader = importlib.util.LazyLoader(spec.loader)\n"
        "torch = sys.modules['torch'] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(torch)\n"
        "print('imported')\n"
        "print(torch.version)\n",
        ["imported", "torch", "prepared", "2"],
    ),
    "torch is never imported": ("import json\nprint('done')\n", ["done"]),
}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A torch and a neaptide that only say that they are there."""
    (tmp_path / "torch.py").write_text(
        "import os\nif 'TORCH_FAILS' in os.environ: raise ImportError\nprint('torch')\nversion = 2\n"
    )
    folder = tmp_path / "neaptide" / "live" / "job"
    folder.mkdir(parents=True)
    for package in (folder, *folder.parents[:2]):
        (package / "__init__.py").touch()
    (folder / "attach.py").write_text("def prepare_from_environment():\n    print('prepared')\n")
    return tmp_path


def run(code: str | list[str], packages: Path, **more: str) -> list[str]:
    words = [sys.executable, "-c", code] if isinstance(code, str) else code
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(BOOTSTRAP), str(packages)]), **more}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize("case", PROGRAMS)
def test_a_process_is_prepared_once_when_torch_has_been_executed(case: str, packages: Path) -> None:
    code, expected = PROGRAMS[case]
    assert run(code, packages, NEAPTIDE_SOCKET="/run/daemon.sock") == expected


def test_a_process_without_a_daemon_is_left_alone(packages: Path) -> None:
    assert run("import torch", packages) == ["torch"]


def test_a_process_that_reads_the_bootstrap_maps_it_for_others_to_see(packages: Path) -> None:
    code = "print('bootstrap/sitecustomize.py' in open('/proc/self/maps').read())"
    assert run(code, packages, NEAPTIDE_SOCKET="/run/daemon.sock") == ["True"]
    assert run(code, packages) == ["False"]


def test_torch_in_the_users_own_sitecustomize_counts(packages: Path) -> None:
    (packages / "sitecustomize.py").write_text("import torch\n")
    assert run("print('program')", packages, NEAPTIDE_SOCKET="/run/daemon.sock") == ["torch", "prepared", "program"]


def test_a_python_without_neaptide_says_so_and_goes_on(packages: Path) -> None:
    (packages / "neaptide" / "live" / "job" / "attach.py").write_text("import no_such_package\n")
    assert run("import torch\nprint('program')", packages, NEAPTIDE_SOCKET="/run/daemon.sock") == [
        "torch",
        "program",
        "neaptide: this process is not shared: No module named 'no_such_package'",
    ]


def test_a_python_without_neaptide_and_stderr_writes_into_no_other_file(packages: Path) -> None:
    (packages / "neaptide" / "live" / "job" / "attach.py").write_text("import no_such_package\n")
    code = f"import os\nassert os.open({str(packages / 'mine')!r}, os.O_CREAT | os.O_RDWR) == 2\nimport torch"
    words = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", code]
    assert run(words, packages, NEAPTIDE_SOCKET="/run/daemon.sock") == ["torch"]
    assert (packages / "mine").read_bytes() == b""
