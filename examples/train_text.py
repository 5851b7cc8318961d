"""Train a small transformer to write sums, letter by letter. Plain PyTorch: it knows nothing of neaptide.

python examples/train_text.py --steps 40
"""

import argparse
import hashlib

import torch
import torch.nn.functional as F
from torch import nn

LETTERS = "0123456789+=; "


def sums(count: int) -> torch.Tensor:
    """A text such as `37+5=42; `, as letters' numbers."""
    pairs = torch.randint(100, (count, 2), generator=torch.Generator().manual_seed(1)).tolist()
    text = "".join(f"{a}+{b}={a + b}; " for a, b in pairs)
    return torch.tensor([LETTERS.index(letter) for letter in text])


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        mixed = self.query_key_value(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        weights = (query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5 + mask).softmax(-1)
        x = x + self.out((weights @ value).transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.widen(self.between(x))))


class Writer(nn.Module):
    def __init__(self, width: int, heads: int, blocks: int, length: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.head = nn.Linear(width, len(LETTERS))
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.letters(text) + self.places
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--blocks", type=int, default=4)
    given = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Writer(given.width, 4, given.blocks, given.length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    text, choose = sums(20_000), torch.Generator().manual_seed(2)

    for step in range(1, given.steps + 1):
        starts = torch.randint(len(text) - given.length - 1, (given.batch,), generator=choose)
        lines = torch.stack([text[start : start + given.length + 1] for start in starts.tolist()]).to(device)
        loss = F.cross_entropy(model(lines[:, :-1]).flatten(0, 1), lines[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} of {given.steps}, loss {loss.item():.4f}", flush=True)

    digest = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters()))
    print(f"final loss {loss.item():.6f}, parameters {digest.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
