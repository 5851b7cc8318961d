"""Node classification with torch_geometric, as in its introduction."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv

torch.manual_seed(0)


class GCN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = GCNConv(16, 32), GATConv(32, 4, heads=2, concat=False)

    def forward(self, data):
        x = F.dropout(F.relu(self.one(data.x, data.edge_index)), training=self.training)
        return F.log_softmax(self.two(x, data.edge_index), dim=1)


data = Data(x=torch.randn(300, 16), edge_index=torch.randint(0, 300, (2, 1500)), y=torch.randint(0, 4, (300,)))
data, model = data.to("cuda"), GCN().to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(20):
    model.train()
    optimizer.zero_grad()
    loss = F.nll_loss(model(data)[:200], data.y[:200])
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
model.eval()
print("loss", (model(data).argmax(1)[200:] == data.y[200:]).sum().item())
