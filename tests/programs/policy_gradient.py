"""REINFORCE: episodes of different lengths, then one step over all of them."""

import random

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)).cuda()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


def walk(position, action):
    position = [0.9 * p + random.uniform(-0.3, 0.3) for p in position]
    position[0] += 0.1 if action else -0.1
    return position, 1.0 - abs(position[0]), abs(position[0]) > 1.2


for _ in range(16):
    position, log_probabilities, rewards = [0.0] * 4, [], []
    for _ in range(random.randint(5, 30)):
        distribution = torch.distributions.Categorical(logits=policy(torch.tensor(position).cuda()))
        action = distribution.sample()
        log_probabilities.append(distribution.log_prob(action))
        position, reward, over = walk(position, action.item())
        rewards.append(reward)
        if over:
            break
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0).cuda()
    loss = -(torch.stack(log_probabilities) * (returns - returns.mean())).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
