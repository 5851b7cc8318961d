"""Optuna tries learning rates with three threads; each trial trains a model of its own."""

import optuna
import torch
from torch import nn

optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial):
    generator = torch.Generator().manual_seed(trial.number)
    lr = [0.1, 0.03, 0.01, 0.003, 0.001, 0.3][trial.number]
    weights = [torch.randn(shape, generator=generator) / 8 for shape in ((64, 32), (4, 64))]
    model = nn.Sequential(nn.Linear(32, 64, bias=False), nn.ReLU(), nn.Linear(64, 4, bias=False))
    for layer, weight in zip((model[0], model[2]), weights, strict=True):
        layer.weight.data.copy_(weight)
    model.cuda()
    x, y = torch.randn(64, 32, generator=generator).cuda(), torch.randint(0, 4, (64,), generator=generator).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(12):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {trial.number} {loss.item().hex()}\n", end="", flush=True)  # one write: threads print at once
    return loss.item()


study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
study.optimize(objective, n_trials=6, n_jobs=3)
assert len([t for t in study.trials if t.state == optuna.trial.TrialState.COMPLETE]) == 6
