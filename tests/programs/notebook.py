"""A notebook, run as `jupyter nbconvert --execute` does."""

import nbformat
from nbclient import NotebookClient

cells = [
    "import torch\nfrom torch import nn\ntorch.manual_seed(0)",
    "model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1)).cuda()\n"
    "optimizer = torch.optim.Adam(model.parameters())",
    "for _ in range(24):\n"
    "    x = torch.randn(64, 32).cuda()\n"
    "    loss = (model(x) - x[:, :1]).square().mean()\n"
    "    optimizer.zero_grad(); loss.backward(); optimizer.step()\n"
    "    print('loss', loss.item().hex())",
]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
for output in notebook.cells[-1].outputs:
    print(output.get("text", ""), end="")
