"""Commands run in this process, and the scripts that they are given."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from neaptide.cli import main

SCRIPTS = {
    "plain": """
        import torch
        from torch import nn
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(100):
            loss = nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("step", step)
    """,
    "for_cuda": """
        import torch
        from torch import nn
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = nn.Linear(16, 4).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(100):
            model(torch.randn(8, 16, device=device)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """,
    "accumulating": """
        import torch
        from torch import nn
        model = nn.Linear(16, 4)
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(100):
            model(torch.randn(8, 16)).sum().backward()
            if step % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
    """,
    "raising": """
        import sys
        import torch
        from torch import nn
        model = nn.Linear(16, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def check(step):
            if step == int(sys.argv[1]):
                raise KeyError("the data ended")
        for step in range(100):
            check(step)
            model(torch.randn(8, 16)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """,
    "wrong_shape": """
        import torch
        from torch import nn
        nn.Linear(16, 4)(torch.randn(8, 15))
    """,
    "arguments": """
        import argparse
        import torch
        from torch import nn
        parser = argparse.ArgumentParser()
        parser.add_argument("--batch", type=int)
        parser.add_argument("-o")
        parser.add_argument("data", nargs="*")
        given = parser.parse_args()
        print(given)
        model = nn.Linear(16, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(10):
            model(torch.randn(given.batch, 16)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    """,
    "no_torch": "print('hello')",
    "gan": """
        import torch
        from torch import nn
        generator, critic = nn.Linear(4, 16), nn.Linear(16, 1)
        of_generator = torch.optim.Adam(generator.parameters())
        of_critic = torch.optim.Adam(critic.parameters())
        for step in range(30):
            fake = generator(torch.randn(8, 4))
            of_critic.zero_grad()
            (critic(fake.detach()).mean() - critic(torch.randn(8, 16)).mean()).backward()
            of_critic.step()
            of_generator.zero_grad()
            (-critic(fake).mean()).backward()
            of_generator.step()
    """,
    "serving": """
        import sys
        import torch
        from torch import nn
        model = nn.Linear(16, 4).eval()
        with torch.no_grad():
            for step in range(20):
                model(torch.randn(8, 16))
        sys.exit(0)
    """,
    "leaving": "import sys; sys.exit('no data')",
    "misspelt": "x = (",
    "interrupted": "raise KeyboardInterrupt",
}


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]
Script = Callable[[str], Path]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `neaptide` with these words."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("neaptide.reporting.terminal.progress._LINE_SECONDS", 3600.0)  # however slow the machine is

    def run(*words: object) -> Outcome:
        code = main([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def full() -> io.StringIO:
    """A file to which nothing can be written, as on a full disk."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:  # noqa: ARG002
            raise OSError(errno.ENOSPC, "No space left on device")

    return Full()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Write one of the scripts and give its path."""

    def write(name: str) -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(dedent(SCRIPTS[name]))
        return path

    return write
