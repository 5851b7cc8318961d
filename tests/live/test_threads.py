"""Programs with threads under a daemon: nothing hangs, all steps and requests count, and the exit code is right."""

from __future__ import annotations

import pytest

from daemons import MIB, until
from neaptide.core.control.events import RequestAnswered, RequestArrived
from neaptide.reporting.logs.log_file import read_runs
from real_jobs import RealDaemon, StartDaemon

THREADS = """
import sys, threading, torch
from torch import nn
STEPS = 60
def train(seed):
    generator = torch.Generator().manual_seed(seed)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1)).to("soft")
    update = torch.optim.Adam(network.parameters())
    for _ in range(STEPS):
        update.zero_grad()
        network(torch.randn(32, 64, generator=generator).to("soft")).square().mean().backward()
        update.step()
        done.append(seed)
    if seed == 3:
        raise RuntimeError("this thread fails")
done = []
threads = [threading.Thread(target=train, args=(seed,)) for seed in (1, 2, 3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(done))
sys.exit(0 if len(done) == 3 * STEPS else 1)
"""

SERVER = """
import sys, torch
from concurrent.futures import ThreadPoolExecutor
from torch import nn
network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)).to("soft").eval()
def serve(number):
    with torch.no_grad():
        return network(torch.full((4, 64), float(number)).to("soft")).cpu().sum().item()
with ThreadPoolExecutor(8) as pool:
    answers = list(pool.map(serve, range(200)))
expected = [serve(number) for number in range(200)]
print(len(answers))
sys.exit(0 if answers == expected else 1)
"""

BATCHING_SERVER = """
import queue, sys, threading, torch
from concurrent.futures import Future, ThreadPoolExecutor
from torch import nn
import neaptide
network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)).to("soft").eval()
waiting = queue.Queue()
def batches():
    while (first := waiting.get()) is not None:
        taken = [first]
        while len(taken) < 4 and not waiting.empty():
            taken.append(waiting.get())
        with neaptide.serving([request for request, _, _ in taken]), torch.no_grad():
            answers = network(torch.stack([x for _, x, _ in taken]).to("soft")).cpu()
        for (_, _, answer), row in zip(taken, answers):
            answer.set_result(row)
def handle(number):
    with neaptide.request() as request:
        answer = Future()
        waiting.put((request, torch.full((64,), float(number)), answer))
        return answer.result(60).sum().item()
loop = threading.Thread(target=batches)
loop.start()
with ThreadPoolExecutor(8) as pool:
    answers = list(pool.map(handle, range(200)))
waiting.put(None)
loop.join()
print(len(answers))
"""

LARGE_CALLS = """
import sys, threading, torch
from concurrent.futures import ThreadPoolExecutor
from torch import nn
torch.manual_seed(0)
network = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 8)).to("soft").eval()
def serve(number):
    with torch.no_grad():
        return network(torch.full((1024, 64), float(number)).to("soft")).cpu().sum().item()
expected = [serve(number) for number in range(40)]
together = threading.Barrier(8)
class Meeting(nn.Module):
    def forward(self, x):
        together.wait(60)  # each of the calls holds a part of what it needs
        return x
network.insert(1, Meeting())
with ThreadPoolExecutor(8) as pool:
    answers = list(pool.map(serve, range(40)))
print(len(answers))
sys.exit(0 if answers == expected else 1)
"""

NO_ITERATIONS = """
import time, torch
weight = torch.ones(1024, 1024, device="soft", requires_grad=True)
print("begins", flush=True)
end = time.monotonic() + 4
while time.monotonic() < end:
    loss = (torch.ones(64, 1024, device="soft") @ weight).square().mean()
    loss.backward()
    with torch.no_grad():
        weight -= 0.01 * weight.grad
        weight.grad = None
    loss.item()
"""


def counted(daemon: RealDaemon, name: str) -> int:
    return daemon.job(name).iterations_done


def test_three_training_threads_all_step_to_the_end_beside_another_job(start: StartDaemon) -> None:
    daemon = start("neaptide", 100 * MIB)
    other = daemon.run(name="other", iterations=100_000)
    until(lambda: other.done > 3, "the other to run")
    process = daemon.program("threads", THREADS)
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out.split()) == (0, ["180"])
    until(lambda: daemon.has("threads", "done"), "it to be done")
    # The last one of each thread is not counted if another's end came first, nor those while it was measured but one's.
    assert 150 <= counted(daemon, "threads") <= 180
    other.stop.set()


@pytest.mark.parametrize("kind", ["training", "inference"])
def test_every_request_to_a_server_with_a_thread_pool_is_answered(kind: str, start: StartDaemon) -> None:
    daemon = start("neaptide", 100 * MIB)
    other = daemon.run(name="other", iterations=100_000)
    until(lambda: other.done > 3, "the other to run")
    process = daemon.program("server", SERVER, NEAPTIDE_KIND=kind)
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out.split()) == (0, ["200"])
    until(lambda: daemon.has("server", "done"), "it to be done")
    assert 360 <= counted(daemon, "server") <= 400
    other.stop.set()


@pytest.mark.parametrize("policy", ["spatial", "mps", "mig", "gslice"])
def test_calls_on_threads_that_together_need_more_than_the_part_of_their_server_are_all_answered(
    policy: str, start: StartDaemon
) -> None:
    daemon = start(policy, 200 * MIB)
    process = daemon.program("server", LARGE_CALLS, NEAPTIDE_KIND="inference")
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out.split()) == (0, ["40"])


def test_a_server_that_batches_has_every_request_counted_from_its_arrival_to_its_answer(start: StartDaemon) -> None:
    daemon = start("neaptide", 100 * MIB)
    other = daemon.run(name="other", iterations=100_000)
    until(lambda: other.done > 3, "the other to run")
    process = daemon.program("server", BATCHING_SERVER, NEAPTIDE_KIND="inference", NEAPTIDE_DEADLINE="5")
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out.split()) == (0, ["200"])
    until(lambda: daemon.has("server", "done"), "it to be done")
    daemon.status()  # the log has everything from then on
    events = read_runs(daemon.paths.events)[-1].entries
    arrived = [each for each in events if isinstance(each, RequestArrived) and each.job == "server"]
    answered = [each for each in events if isinstance(each, RequestAnswered) and each.job == "server"]
    assert all(each.tracked for each in arrived)
    assert 150 <= len(arrived) == len(answered) <= 200  # those before it was measured are not known
    assert sum(each.expected for each in arrived) >= 150
    other.stop.set()


def test_a_program_without_iterations_shares_the_device_and_stops_nobody(start: StartDaemon) -> None:
    daemon = start("neaptide", 100 * MIB)
    other = daemon.run(name="other", iterations=100_000)
    until(lambda: other.done > 3, "the other to run")
    process = daemon.program("plain", NO_ITERATIONS)
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    before = other.done
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert other.done > before + 50
    until(lambda: daemon.has("plain", "done"), "it to be done")
    other.stop.set()
