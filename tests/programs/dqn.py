"""DQN: single steps in the environment, a replay buffer, a target network that is copied now and then."""

import random
from collections import deque

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
make = lambda: nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 4)).cuda()  # noqa: E731
online, target = make(), make()
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
replay, state = deque(maxlen=500), torch.zeros(8)
for step in range(120):
    with torch.no_grad():
        best = online(state.cuda().unsqueeze(0)).argmax(1).item()
    action = best if random.random() > 0.2 else random.randrange(4)
    after = (0.9 * state + torch.randn(8) * 0.1).clamp(-1, 1)
    after[action] += 0.1
    replay.append((state, action, after.sum().item(), after))
    state = after
    if step >= 32:
        states, actions, rewards, afters = zip(*random.sample(replay, 32), strict=True)
        with torch.no_grad():
            goal = torch.tensor(rewards).cuda() + 0.99 * target(torch.stack(afters).cuda()).amax(1)
        value = online(torch.stack(states).cuda()).gather(1, torch.tensor(actions).cuda().unsqueeze(1))[:, 0]
        loss = nn.functional.smooth_l1_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item().hex(), flush=True)
    if step % 25 == 0:
        target.load_state_dict(online.state_dict())
