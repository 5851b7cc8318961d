"""Numbers only: a matrix's largest eigenvalue by iteration; nothing is trained."""

import torch

torch.manual_seed(0)
a = torch.randn(512, 512, device="cuda")
a = a @ a.T / 512
v = torch.ones(512, device="cuda")
for step in range(200):
    v = a @ v
    norm = v.norm()
    v = v / norm
    if step % 10 == 9:
        print("loss", norm.item().hex(), flush=True)
