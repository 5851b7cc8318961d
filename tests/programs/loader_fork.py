"""A DataLoader with two workers that are started by fork, and pinned memory."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        x = torch.full((16,), index / 128)
        return x, x.square().sum()


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Squares(),
        16,
        shuffle=True,
        num_workers=2,
        multiprocessing_context="fork",
        pin_memory=True,
        persistent_workers=True,
    )
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(3):
        for x, y in loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            loss = (model(x)[:, 0] - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("loss", loss.item().hex(), flush=True)


if __name__ == "__main__":
    main()
