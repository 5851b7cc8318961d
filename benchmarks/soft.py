"""How fast is the software GPU against the CPU that it runs on, and does it behave like a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks._training import Network, Trainer, rate_of

from neaptide.reporting.terminal.bench import Figure

# The goal is for the time of a step over its time on `cpu`.
STEPS = (
    (Network("resnet18", "paper", 4), "<= 1.05"),
    (Network("transformer", "paper", 2), "<= 1.05"),
    (Network("gpt2", "short", 4), "<= 1.05"),
    (Network("rnnlm-small", "paper", 20), "<= 1.3"),
    (Network("gpt2", "tiny", 4), ""),
)
# The SMs that a kernel may use, and the goal for the rate of two processes over that of one. The narrow networks have
# long kernels, so that launching, which takes the same cores, is a small part.
TOGETHER = (
    (Network("resnet18", "tiny", 64), "1", ">= 1.8"),
    (Network("gpt2", "tiny", 32), "1", ">= 1.8"),
    (Network("resnet18", "paper", 4), "", ">= 0.95"),
    (Network("gpt2", "short", 4), "", ">= 0.95"),
)
ROUNDS = 5
SECONDS = 3.0  # of each process's turn
TOGETHER_SECONDS = 4.0
LOGGED_ROUNDS = 40
LOGGED_KERNELS = 2000
LOGGED_STEPS = 4


def figures() -> Iterator[Figure]:
    """The two sides of a ratio are processes that take turns, so that a disturbance of the machine affects both."""
    yield Figure("build", _build_seconds(), "s", "<= 120")
    for network, goal in STEPS:
        with Trainer("cpu", network) as cpu, Trainer("soft", network) as soft:
            rounds = [(rate_of([cpu], SECONDS), rate_of([soft], SECONDS)) for _ in range(ROUNDS)]
        yield Figure(f"{network}: cpu step", 1e3 / max(rate for rate, _ in rounds), "ms")
        ratio = median(on_cpu / on_soft for on_cpu, on_soft in rounds)
        yield Figure(f"{network}: step against cpu", ratio, "x", goal)
    small = _child("small")
    yield Figure("launch", small["launch"], "us", "<= 3")
    yield Figure("launch and item() round trip", small["round_trip"], "us", "<= 20")
    yield Figure("run-ahead: kernels in flight after a ResNet step was launched", small["ahead"], "kernels")
    log = _child("log")
    yield Figure("ResNet step with the kernel log", log["logged step"], "x", "<= 1.01")
    yield Figure("ResNet step under torch.profiler", log["profiled step"], "x")
    yield Figure("kernel log, of one kernel", log["logged kernel"], "ns")
    lighter = log["profiled kernel"] / log["logged kernel"]
    yield Figure("torch.profiler against the kernel log, of one kernel", lighter, "x", ">= 10")
    for network, sms, goal in TOGETHER:
        yield from _together(network, sms, goal)
    for reuse, how in (("yes", "as it is"), ("no", "freed blocks not taken again at launch")):
        peaks = _child("peaks", reuse)
        for cap in ("none", "64", "16", "4", "1"):
            goal = "<= 1.1" if cap == "4" and reuse == "yes" else ""
            yield Figure(f"held against needed, {how}, in flight at most {cap}", peaks[cap], "x", goal)


def _together(network: Network, sms: str, goal: str) -> Iterator[Figure]:
    """One to four processes train on one board."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        board = {"NEAPTIDE_SOFT_BOARD": f"{folder}/board", "NEAPTIDE_SOFT_SMS": sms}
        trainers = [stack.enter_context(Trainer("soft", network, **board)) for _ in range(4)]
        rounds = [{count: rate_of(trainers[:count], TOGETHER_SECONDS) for count in (1, 2, 3, 4)} for _ in range(ROUNDS)]
    for count, base, goal_of_ratio in ((2, 1, goal), (3, 2, ">= 0.9"), (4, 2, ">= 0.9")):
        ratio = median(rates[count] / rates[base] for rates in rounds)
        where = f"{network}, width {sms or 'all'}"
        yield Figure(f"{where}: {count} processes against {base}", ratio, "x", goal_of_ratio)


def _child(*arguments: str) -> dict[str, float]:
    search = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": str(os.cpu_count()), "PYTHONPATH": search}
    run = subprocess.run(
        [sys.executable, __file__, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    result: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return result


def _build_seconds() -> float:
    with tempfile.TemporaryDirectory() as folder:
        started = perf_counter()
        subprocess.run(
            [sys.executable, "-c", "import neaptide.devices.soft"],
            env={**os.environ, "NEAPTIDE_CACHE": folder},
            capture_output=True,
            check=True,
        )
        return perf_counter() - started


def _small() -> dict[str, float]:
    import torch

    import neaptide.devices.soft  # noqa: F401
    from neaptide.models import build

    one = torch.ones(4, device="soft")
    one.add(one)
    torch.soft.synchronize()
    launches, trips = [], []
    for _ in range(20):
        torch.soft.close_execution_gate()
        started = perf_counter()
        for _ in range(500):
            one.add(one)
        launches.append((perf_counter() - started) / 500)
        torch.soft.open_execution_gate()
        torch.soft.synchronize()
        started = perf_counter()
        for _ in range(200):
            one.sum().item()
        trips.append((perf_counter() - started) / 200)

    work = build("resnet18", scale="tiny", batch=64, device="soft")
    work.step()
    torch.soft.synchronize()
    work.step()
    ahead = torch.soft.in_flight()
    return {"launch": 1e6 * median(launches), "round_trip": 1e6 * median(trips), "ahead": ahead}


def _log() -> dict[str, float]:
    """The time that the kernel log and torch.profiler add to an empty kernel and to a step, measured in turns."""
    import torch

    import neaptide.devices.soft  # noqa: F401
    from neaptide.models import build

    ways: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "logged": lambda: torch.soft.log_kernels(1 << 12),
        "profiled": torch.profiler.profile,
    }
    one = torch.ones(4, device="soft")

    def kernels() -> None:
        for _ in range(LOGGED_KERNELS):
            one.add(one)
        torch.soft.synchronize()

    work = build("resnet18", scale="tiny", batch=64, device="soft")

    def steps() -> None:
        for _ in range(LOGGED_STEPS):
            work.step()
        torch.soft.synchronize()

    found = {}
    for name, around in ways.items():
        added, ratios = [], []
        for index in range(LOGGED_ROUNDS):
            times = {}
            for way in ((nullcontext, around), (around, nullcontext))[index % 2]:
                for do in (kernels, steps):
                    started = perf_counter()
                    with way():
                        do()
                    times[way, do] = perf_counter() - started
            added.append(times[around, kernels] - times[nullcontext, kernels])
            ratios.append(times[around, steps] / times[nullcontext, steps])
        found[f"{name} kernel"] = 1e9 * median(added) / LOGGED_KERNELS
        found[f"{name} step"] = median(ratios)
    return found


def _peaks(reuse: str) -> dict[str, float]:
    import torch

    import neaptide.devices.soft  # noqa: F401
    from neaptide.models import build

    with torch.soft.persistent_memory():
        work = build("resnet18", batch=4, device="soft")
    work.step()
    torch.soft.set_reuse_at_launch(reuse == "yes")
    ratios = {}
    for cap in (None, 64, 16, 4, 1):
        torch.soft.synchronize()
        torch.soft.empty_cache()
        torch.soft.set_in_flight_cap(cap)
        torch.soft.reset_peak_memory_stats()
        for _ in range(3):
            work.step()
        torch.soft.synchronize()
        ratios[str(cap).lower()] = torch.soft.max_memory_reserved() / torch.soft.max_memory_allocated()
    return ratios


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    print(json.dumps({"small": _small, "log": _log, "peaks": _peaks}[kind](*rest)))
