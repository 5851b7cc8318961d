"""Which calls and steps of a program are an iteration. The tests use the CPU: boundaries are the same on any device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from neaptide.capture.boundaries import Boundaries

BATCH = torch.ones(2, 3)


class Notes:
    """What a listener is told, in letters: t and s a training and a serving iteration begins, f forward, e end."""

    def __init__(self) -> None:
        self.text = ""

    def begin(self, serving: bool, trained: bool) -> None:  # noqa: ARG002 - the listener's interface
        self.text += "s" if serving else "t"

    def end_forward(self) -> None:
        self.text += "f"

    def end(self) -> None:
        self.text += "e"

    def change(self) -> None:
        self.text += "!"


@contextmanager
def noted(*, serves: bool = False) -> Iterator[Notes]:
    notes = Notes()
    boundaries = Boundaries(notes, "cpu")
    boundaries.serves = serves
    boundaries.install()
    try:
        yield notes
    finally:
        boundaries.remove()


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 1)))


def sgd(*models: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD([parameter for each in models for parameter in each.parameters()], lr=0.1)


def backward(network: nn.Module) -> None:
    loss = nn.MSELoss()(network(BATCH), torch.zeros(2, 1))  # a module, too, but without parameters
    loss.backward()


def test_a_plain_loop_has_one_iteration_per_step() -> None:
    network = model()
    update = sgd(network)
    with noted() as notes:
        for _ in range(3):
            update.zero_grad()
            backward(network)
            update.step()
    assert notes.text == "tf!e" + "tfe" * 2


def test_accumulated_gradients_are_one_iteration() -> None:
    network = model()
    update = sgd(network)
    with noted() as notes:
        for step in range(12):
            backward(network)
            notes.text += "."
            if step % 4 == 3:
                update.step()
                update.zero_grad()
    # Before the first step the number of calls is unknown; afterwards the forward pass ends with the fourth.
    assert notes.text == "tf.e" * 3 + "tf.!e" + "tf....e" + "t...f.e"


def test_of_two_optimizers_the_one_that_first_steps_later_closes_the_iteration() -> None:
    generator, critic = model(), model()
    first, second = sgd(critic), sgd(generator)
    with noted() as notes:
        for _ in range(3):
            for _ in range(2):
                with torch.no_grad():
                    generator(BATCH)
                backward(critic)
                first.step()
            backward(generator)
            second.step()
    settled = notes.text.rsplit("!", 1)[1]
    assert settled == "e" + "tfe" * 2


def test_every_call_of_an_evaluation_is_an_iteration_of_its_own() -> None:
    network = model()
    update = sgd(network)
    with noted() as notes:
        for epoch in range(3):
            network.train()
            for _ in range(2):
                backward(network)
                update.step()
            if epoch:
                network.eval()
                with torch.no_grad():
                    network(BATCH), network(BATCH)
    assert notes.text == "tf!e" + "tfe" * 3 + "sese" + "tfe" * 2 + "sese"


def test_every_call_of_another_copy_of_the_model_is_an_iteration_of_its_own() -> None:
    network, average = model(), model().eval()
    update = sgd(network)
    with noted() as notes:
        for step in range(6):
            backward(network)
            update.step()
            if step == 4:
                with torch.inference_mode():
                    average(BATCH)
    assert notes.text == "tf!e" + "tfe" * 4 + "se" + "tfe"


def test_a_teacher_that_every_iteration_calls_belongs_to_the_iteration() -> None:
    student, teacher = model(), model().eval()
    update = sgd(student)
    with noted() as notes:
        for _ in range(5):
            with torch.no_grad():
                teacher(BATCH)
            backward(student)
            update.step()
    assert notes.text.endswith("tfe" * 3)


def test_serving_is_one_iteration_per_call_that_ends_with_the_call() -> None:
    network = model().eval()
    with noted() as notes:
        with torch.no_grad():
            for _ in range(3):
                network(BATCH)
        assert notes.text == "se" * 3


def test_a_call_of_a_program_that_serves_ends_with_the_call_also_if_it_has_left_gradients_on() -> None:
    network = model().eval()
    with noted(serves=True) as notes:
        for _ in range(3):
            network(BATCH)
        assert notes.text == "se" * 3


def test_a_program_that_updates_its_weights_itself_has_one_iteration_from_call_to_call() -> None:
    network = model()
    with noted() as notes:
        for _ in range(3):
            backward(network)
    assert notes.text == "tfetfetf"


def test_a_program_without_modules_has_one_iteration_from_step_to_step() -> None:
    weight = nn.Parameter(torch.ones(3))
    update = torch.optim.Adam([weight])
    with noted() as notes:
        for _ in range(4):
            (weight * BATCH).sum().backward()
            update.step()
    assert notes.text == "!t" + "et" * 3


def test_a_step_that_calls_the_model_itself_is_one_iteration() -> None:
    network = model()
    update = torch.optim.LBFGS(network.parameters(), max_iter=2)

    def closure() -> torch.Tensor:
        update.zero_grad()
        loss: torch.Tensor = network(BATCH).square().mean()
        loss.backward()
        return loss

    with noted() as notes:
        for _ in range(3):
            update.step(closure)
    assert notes.text.rsplit("!", 1)[1].count("t") == 2
    assert notes.text.endswith("e")


def test_recomputation_in_the_backward_pass_is_not_a_call() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model()

        def forward(self, batch: torch.Tensor) -> Any:
            return checkpoint(self.inner, batch.clone().requires_grad_(), use_reentrant=False)

    network = Checkpointed()
    update = sgd(network)
    with noted() as notes:
        for _ in range(3):
            backward(network)
            update.step()
    assert notes.text == "tf!e" + "tfe" * 2


def test_when_the_closing_optimizer_stops_stepping_another_takes_its_place() -> None:
    one, other = model(), model()
    first, second = sgd(one), sgd(other)
    with noted() as notes:
        for network, update in ((one, first), (other, second)):
            backward(network)
            update.step()
        notes.text = ""
        for _ in range(40):
            backward(one)
            first.step()
    assert notes.text.endswith("tfe" * 3)


def test_after_a_call_that_raises_only_its_iteration_is_open() -> None:
    network = model()
    update = sgd(network)
    with noted() as notes:
        backward(network)
        update.step()
        with pytest.raises(RuntimeError):
            network(torch.ones(2, 5))
        backward(network)
        update.step()
    assert notes.text == "tf!e" + "tfe"


@pytest.mark.parametrize("use", [lambda: model()(BATCH), lambda: sgd(model()).step()])
def test_boundaries_watch_no_other_device_and_nothing_once_removed(use: Callable[[], object]) -> None:
    before = nn.Module.__call__
    notes = Notes()
    boundaries = Boundaries(notes, "meta")
    boundaries.install()
    use()
    boundaries.remove()
    assert nn.Module.__call__ is before
    use()
    assert notes.text == ""


def test_a_model_counts_though_its_first_parameters_are_elsewhere() -> None:
    network = nn.Sequential(nn.Embedding(4, 3, device="meta"), model())
    update = sgd(network)
    elsewhere: list[tuple[str, bool]] = []
    notes = Notes()
    boundaries = Boundaries(notes, "cpu", lambda *seen: elsewhere.append(seen))
    network.forward = lambda x: network[1](x)  # type: ignore[method-assign]
    boundaries.install()
    try:
        for _ in range(2):
            backward(network)
            update.step()
        network[0].requires_grad_(False)
        sgd(network[0]).step()
    finally:
        boundaries.remove()
    assert notes.text == "tf!e" + "tfe"
    assert elsewhere == [("meta", True)]


def test_a_step_that_the_program_compiles_is_compiled_as_it_is() -> None:
    network = model()
    update = sgd(network)
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    step = torch.compile(update.step, backend=backend)
    with noted() as notes:
        for _ in range(2):
            backward(network)
            step()
    assert len(graphs) == 1
    assert notes.text == "tf" + "etf"


# --- threads


class PerThread:
    """What a listener is told by each thread, in the letters of Notes."""

    def __init__(self) -> None:
        self.of: dict[int, Notes] = {}

    @property
    def _mine(self) -> Notes:
        return self.of.setdefault(threading.get_ident(), Notes())

    def begin(self, serving: bool, trained: bool) -> None:
        self._mine.begin(serving, trained)

    def end_forward(self) -> None:
        self._mine.end_forward()

    def end(self) -> None:
        self._mine.end()

    def change(self) -> None:
        self._mine.change()


@contextmanager
def noted_per_thread() -> Iterator[dict[int, Notes]]:
    listener = PerThread()
    boundaries = Boundaries(listener, "cpu")
    boundaries.install()
    try:
        yield listener.of
    finally:
        boundaries.remove()


def test_two_threads_that_train_have_their_own_iterations_step_by_step() -> None:
    networks = [model(), model()]
    updates = [sgd(network) for network in networks]

    def forward(index: int) -> None:
        backward(networks[index])

    def step(index: int) -> None:
        updates[index].step()

    with noted_per_thread() as notes, ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for _ in range(6):  # always both inside an iteration
            for what in (forward, step):
                for index, thread in enumerate((one, other)):
                    thread.submit(what, index).result()
        told = [each.text for each in notes.values()]
    assert told == ["tf!e" + "tfe" * 5] * 2


def test_requests_that_threads_serve_at_once_are_all_iterations_of_their_own() -> None:
    network, inside = model().eval(), threading.Barrier(4)
    network[0].register_forward_hook(lambda *_: (inside.wait(30), None)[1])

    def serve(_: int) -> None:
        with torch.no_grad():
            network(BATCH)

    with noted_per_thread() as notes, ThreadPoolExecutor(4) as pool:
        list(pool.map(serve, range(40)))
        told = [each.text for each in notes.values()]
    assert "".join(told) == "se" * 40


def test_a_call_that_fails_in_a_thread_ends_its_iteration() -> None:
    network = model().eval()

    def serve(batch: torch.Tensor) -> bool:
        with torch.no_grad():
            try:
                network(batch)
            except RuntimeError:
                return False
        return True

    with noted_per_thread() as notes, ThreadPoolExecutor(1) as thread:
        assert list(thread.map(serve, [BATCH, torch.ones(7, 7), BATCH])) == [True, False, True]
        (told,) = notes.values()
    assert told.text == "se" * 3


def test_calls_in_threads_that_never_step_belong_to_the_thread_that_steps() -> None:
    halves = [model(), model()]
    update = sgd(*halves)
    with noted_per_thread() as notes, ThreadPoolExecutor(2) as pool:
        for _ in range(6):
            outputs = list(pool.map(lambda network: network(BATCH).sum(), halves))
            sum(outputs).backward()  # type: ignore[union-attr]
            update.step()
        mine = notes[threading.get_ident()].text
        others = [each.text for thread, each in notes.items() if thread != threading.get_ident()]
    assert mine == "!t" + "et" * 5
    assert all(text.count("e") <= 1 for text in others)


def test_a_thread_that_serves_beside_one_that_trains_has_iterations_of_its_own() -> None:
    network, served = model(), model()
    update = sgd(network)

    def serve() -> None:
        with torch.no_grad():
            served(BATCH)

    with noted_per_thread() as notes, ThreadPoolExecutor(1) as pool:
        for _ in range(3):
            backward(network)
            pool.submit(serve).result()
            update.step()
        mine = notes.pop(threading.get_ident()).text
        (other,) = notes.values()
    assert mine == "tf!e" + "tfe" * 2
    assert other.text == "se" * 3
