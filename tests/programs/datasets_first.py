"""datasets is imported first, and gives the batches as tensors."""

from datasets import Dataset

import torch  # isort: skip
from torch import nn

rows = {"x": [[float(i * j % 7) for j in range(16)] for i in range(96)], "y": [i % 3 for i in range(96)]}
loader = torch.utils.data.DataLoader(Dataset.from_dict(rows).with_format("torch"), batch_size=8)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 3)).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    for batch in loader:
        loss = nn.functional.cross_entropy(model(batch["x"].to("cuda")), batch["y"].to("cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item().hex(), flush=True)
