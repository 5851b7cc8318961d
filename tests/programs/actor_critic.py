"""PPO on gymnasium's CartPole: a rollout without gradients, then epochs over minibatches."""

import gymnasium
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
environments = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 4)
actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2)).cuda()
critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=2.5e-4, eps=1e-5)
state, _ = environments.reset(seed=0)
for _ in range(4):
    kept = []
    for _ in range(32):
        seen = torch.tensor(state, dtype=torch.float32).cuda()
        with torch.no_grad():
            choice = Categorical(logits=actor(seen))
            action, value = choice.sample(), critic(seen)[:, 0]
        state, reward, *_ = environments.step(action.cpu().numpy())
        kept.append((seen, action, choice.log_prob(action), torch.tensor(reward).float().cuda(), value))
    seen, action, before, reward, value = (torch.stack(column).flatten(0, 1) for column in zip(*kept, strict=True))
    for _ in range(4):
        for part in torch.randperm(128).split(32):
            part = part.cuda()
            choice = Categorical(logits=actor(seen[part]))
            ratio = (choice.log_prob(action[part]) - before[part]).exp()
            gain = reward[part] - value[part]
            surrogate = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            wrong = (critic(seen[part])[:, 0] - reward[part]).square().mean()
            loss = 0.5 * wrong - surrogate - 0.01 * choice.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
            optimizer.step()
            print("loss", loss.item().hex(), flush=True)
