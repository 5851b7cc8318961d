"""A first network as in the tutorials: cuda if there is one, data loader with workers, dropout, evaluation."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(16 * 6 * 6, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(self.dropout1(x), 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device")
    parser.add_argument("--no-cuda", action="store_true")
    args = parser.parse_args()
    use_cuda = not args.no_cuda and torch.cuda.is_available()
    torch.manual_seed(1)
    device = torch.device(args.device or ("cuda" if use_cuda else "cpu"))
    kwargs = {"num_workers": 1, "pin_memory": True} if device.type != "cpu" else {}
    data = TensorDataset(torch.randn(64, 1, 16, 16), torch.randint(0, 10, (64,)))
    train_loader = DataLoader(data, batch_size=16, shuffle=True, **kwargs)
    test_loader = DataLoader(data, batch_size=32, **kwargs)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    losses = []
    for _ in range(2):
        model.train()
        for x, target in train_loader:
            x, target = x.to(device, non_blocking=True), target.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = F.nll_loss(model(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        test_loss = correct = 0
        with torch.no_grad():
            for x, target in test_loader:
                x, target = x.to(device), target.to(device)
                output = model(x)
                test_loss += F.nll_loss(output, target, reduction="sum").item()
                correct += output.argmax(dim=1, keepdim=True).eq(target.view_as(output.argmax(1))[:, None]).sum().item()
        losses += [test_loss / len(data), correct]
        scheduler.step()
    return losses, next(model.parameters()).device


losses, device = main()
