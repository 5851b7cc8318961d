"""The public face: what README and the guides use can be imported, and importing the package is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import neaptide
from neaptide.core.control.events import IterationEnded
from tides import MIB, tide

ROOT = Path(__file__).parents[2]
INSIDE = "writing-a-device.md"  # a device is a folder of the package, so its guide uses private names
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != INSIDE)]
PUBLIC = ("neaptide", "neaptide.models", "neaptide.plan", "neaptide.policy")
DEVICES = "neaptide.devices"  # the page of a device names the device's folder


def code_blocks(page: Path) -> Iterator[str]:
    for block in page.read_text(encoding="utf-8").split("```python\n")[1:]:
        yield block.split("```")[0]


def names_used(code: str) -> Iterator[tuple[str, str]]:
    """The module and the name of everything of neaptide that some code uses."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "neaptide":
            for alias in node.names:
                yield node.module or "", alias.name
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in PUBLIC:
            yield ast.unparse(node.value), node.attr


USED = sorted(
    {
        (page.name, module, name)
        for page in PAGES
        for block in code_blocks(page)
        for module, name in names_used(block)
        if not module.startswith(DEVICES) and f"{module}.{name}" != DEVICES
    }
)


def test_the_documents_use_public_names() -> None:
    assert len(USED) > 10


@pytest.mark.parametrize(("page", "module", "name"), USED)
def test_a_name_that_a_document_uses_is_public(page: str, module: str, name: str) -> None:
    assert module in PUBLIC, page
    assert name in import_module(module).__all__


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_exists(module: str) -> None:
    found = import_module(module)
    assert [name for name in found.__all__ if not hasattr(found, name)] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        neaptide.nothing  # noqa: B018


@pytest.mark.parametrize(
    "names", ["", "policy plan simulate run_jobs find_device parse_bytes load_trace save_trace Job attach"]
)
def test_names_that_need_no_torch_load_none(names: str) -> None:
    code = (
        "import neaptide, sys\n"
        + "".join(f"neaptide.{name}\n" for name in names.split())
        + "print('torch' in sys.modules)"
    )
    words = [sys.executable, "-c", code]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_package_is_marked_as_typed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "py.typed" in settings["tool"]["setuptools"]["package-data"]["*"]
    assert (Path(neaptide.__file__).parent / "py.typed").is_file()


def test_simulate_takes_names_or_objects() -> None:
    jobs = [neaptide.Job(name=name, trace=tide(fill=0.4), iterations=3) for name in ("a", "b")]
    by_name = neaptide.simulate(jobs, "4GiB", policy="zico", device="V100")
    by_object = neaptide.simulate(
        [neaptide.Submission(job) for job in jobs],
        4096 * MIB,
        policy=neaptide.policy.find_policy("zico"),
        device=neaptide.find_device("V100"),
    )
    assert by_name.entries == by_object.entries
    assert sum(isinstance(entry, IterationEnded) for entry in by_name.entries) == 6
    assert by_name.peak_bytes <= 4096 * MIB


def test_a_simulation_ends_at_the_given_time() -> None:
    endless = neaptide.Job(name="a", trace=tide())
    assert neaptide.simulate([endless], "4GiB", until_seconds=0.5).end_ns == 500_000_000


def test_a_saved_trace_is_loaded_by_its_name(tmp_path: Path) -> None:
    trace = tide()
    neaptide.save_trace(trace, str(tmp_path / "a.trace"))
    assert neaptide.load_trace(str(tmp_path / "a.trace")).peak_bytes == trace.peak_bytes
