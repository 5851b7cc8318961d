"""How near is the software GPU to the CPU it runs on, and how does it behave as a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from neaptide.reporting.bench import Figure

if TYPE_CHECKING:
    from neaptide.models.zoo import Workload

# name, scale, batch, goal of the ratio; `short` is GPT-2 with sequences that two cores can train on
STEPS = (
    ("resnet18", "paper", 4, "<= 1.05"),
    ("transformer", "paper", 2, "<= 1.05"),
    ("gpt2", "short", 4, "<= 1.05"),
    ("rnnlm-small", "paper", 20, "<= 1.3"),
    ("gpt2", "tiny", 4, ""),
)
# name, scale, batch, SMs a kernel may use, goal of two processes against one. The narrow ones have kernels long enough
# that launching them, which takes the same cores here, is a small part.
TOGETHER = (
    ("resnet18", "tiny", 64, "1", ">= 1.8"),
    ("gpt2", "tiny", 32, "1", ">= 1.8"),
    ("resnet18", "paper", 4, "", ">= 0.95"),
    ("gpt2", "short", 4, "", ">= 0.95"),
)
ROUNDS = 4
SECONDS = 2.0
TOGETHER_ROUNDS = 3
TOGETHER_SECONDS = 5.0


def figures() -> Iterator[Figure]:
    """Each side of a ratio is measured in processes of its own, in turn, so that a noisy machine disturbs both."""
    yield Figure("build", _build_seconds(), "s", "<= 120")
    for name, scale, batch, goal in STEPS:
        cpu, soft = [], []
        for _ in range(ROUNDS):
            cpu.append(_child("step", "cpu", name, scale, str(batch))["seconds"])
            soft.append(_child("step", "soft", name, scale, str(batch))["seconds"])
        yield Figure(f"{name} {scale}: cpu step", 1e3 * min(cpu), "ms")
        yield Figure(f"{name} {scale}: step against cpu", min(soft) / min(cpu), "x", goal)
    small = _child("small")
    yield Figure("launch", small["launch"], "us", "<= 3")
    yield Figure("launch and item() round trip", small["round_trip"], "us", "<= 20")
    yield Figure("run-ahead: kernels in flight after a ResNet step was launched", small["ahead"], "kernels")
    yield Figure("ResNet step with the kernel log", small["logged"], "x", "<= 1.01")
    yield Figure("ResNet step under torch.profiler", small["profiled"], "x")
    # A step cannot be timed to better than a thousandth here.
    lighter = (small["profiled"] - 1) / max(small["logged"] - 1, 0.001)
    yield Figure("overhead of torch.profiler against the kernel log's", lighter, "x", ">= 10")
    for name, scale, batch, sms, goal in TOGETHER:
        # In turn, so that what disturbs one round disturbs both sides of its ratios.
        rounds = [
            {count: _rate(count, name, scale, batch, sms) for count in (1, 2, 3, 4)} for _ in range(TOGETHER_ROUNDS)
        ]
        where = f"{name} {scale}, width {sms or 'all'}"
        for count, base, goal_of_ratio in ((2, 1, goal), (3, 2, ">= 0.9"), (4, 2, ">= 0.9")):
            ratio = median(rates[count] / rates[base] for rates in rounds)
            yield Figure(f"{where}: {count} processes against {base}", ratio, "x", goal_of_ratio)
    for reuse, how in (("yes", "as it is"), ("no", "freed blocks not taken again at launch")):
        peaks = _child("peaks", reuse)
        for cap in ("none", "64", "16", "4", "1"):
            goal = "<= 1.1" if cap == "4" and reuse == "yes" else ""
            yield Figure(f"held against needed, {how}, in flight at most {cap}", peaks[cap], "x", goal)


def _child(*arguments: str) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(os.cpu_count())}
    run = subprocess.run(
        [sys.executable, __file__, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    result: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return result


def _rate(count: int, name: str, scale: str, batch: int, sms: str) -> float:
    """Steps per second of so many processes on one board, all together."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NEAPTIDE_SOFT_BOARD": f"{folder}/board", "NEAPTIDE_SOFT_SMS": sms}
        children = [
            subprocess.Popen(
                [sys.executable, __file__, "rate", name, scale, str(batch)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for _ in range(count)
        ]
        outputs = [child.stdout for child in children if child.stdout is not None]
        for output in outputs:
            output.readline()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        rates = [json.loads(output.readline())["rate"] for output in outputs]
        for child in children:
            child.wait()
        return float(sum(rates))


def _rate_of_one(name: str, scale: str, batch: str) -> dict[str, float]:
    """One of them: says that it is ready, waits for a line, then counts its steps."""
    import torch

    import neaptide.devices.soft  # noqa: F401

    work = _workload(name, scale, int(batch), "soft")
    for _ in range(3):
        work.step()
    torch.soft.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    steps, started = 0, perf_counter()
    while perf_counter() - started < TOGETHER_SECONDS:
        work.step()
        torch.soft.synchronize()
        steps += 1
    return {"rate": steps / (perf_counter() - started)}


def _workload(name: str, scale: str, batch: int, device: str) -> Workload:
    """A network of the zoo."""
    from neaptide.models import build

    if scale != "short":
        return build(name, batch=batch, scale=scale, device=device)  # type: ignore[arg-type]
    import torch

    from neaptide.models import feed
    from neaptide.models.attention import Style
    from neaptide.models.gpt import GPT, gelu
    from neaptide.models.zoo import Workload, adam

    style = Style(width=512, heads=8, hidden=2048, activation=gelu, norm_first=True)
    model = GPT(8000, 256, 6, style).to(device)
    sample = feed.tokens(256, 8000)
    return Workload(name, batch, torch.device(device), model, adam(model.parameters()), sample, feed.cross_entropy)


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


def _step(device: str, name: str, scale: str, batch: str) -> dict[str, float]:
    import torch

    if device == "soft":
        import neaptide.devices.soft  # noqa: F401
    torch.manual_seed(0)
    work = _workload(name, scale, int(batch), device)

    def step() -> None:
        work.step()
        if device == "soft":
            torch.soft.synchronize()

    return {"seconds": _typical(step)}


def _typical(step: Callable[[], None], seconds: float = SECONDS) -> float:
    """The median of a first quarter: what a step takes while nothing disturbs it."""
    step()
    step()
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        started = perf_counter()
        step()
        times.append(perf_counter() - started)
    times.sort()
    return median(times[: max(1, len(times) // 4)])


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

    def plain() -> None:
        work.step()
        torch.soft.synchronize()

    def logged() -> None:
        with torch.soft.log_kernels(1 << 12):
            plain()

    def profiled() -> None:
        with torch.profiler.profile():
            plain()

    return {
        "launch": 1e6 * median(launches),
        "round_trip": 1e6 * median(trips),
        "ahead": ahead,
        **_ratios(plain, {"logged": logged, "profiled": profiled}),
    }


def _ratios(plain: Callable[[], None], others: dict[str, Callable[[], None]]) -> dict[str, float]:
    """What the others take against the plain step, in turn."""
    times: dict[str, list[float]] = {name: [] for name in ("plain", *others)}
    for _ in range(120):
        for name, step in (("plain", plain), *others.items()):
            started = perf_counter()
            step()
            times[name].append(perf_counter() - started)
    typical = {name: median(sorted(values)[:30]) for name, values in times.items()}
    return {name: typical[name] / typical["plain"] for name in others}


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
    print(json.dumps({"step": _step, "small": _small, "peaks": _peaks, "rate": _rate_of_one}[kind](*rest)))
