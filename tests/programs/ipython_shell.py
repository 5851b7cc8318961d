"""Cells typed into IPython, one after the other."""

from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in (
    "import torch; from torch import nn; torch.manual_seed(0)",
    "model = nn.Linear(32, 1).to('cuda'); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    *[
        "x = torch.randn(64, 32, device='cuda'); loss = (model(x) - x[:, :1]).square().mean(); loss.backward()\n"
        "optimizer.step(); optimizer.zero_grad(); print('loss', loss.item().hex(), flush=True)"
    ]
    * 20,
):
    shell.run_cell(cell).raise_error()
