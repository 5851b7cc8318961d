"""A Lightning module; the trainer finds the GPU by itself."""

import logging
import sys
import tempfile
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore", ".*does not have many workers.*")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
losses = []


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4))

    def training_step(self, batch, batch_idx):  # noqa: ARG002
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        losses.append(loss.item())
        return loss

    def validation_step(self, batch, batch_idx):  # noqa: ARG002
        losses.append(nn.functional.cross_entropy(self.net(batch[0]), batch[1]).item())
        self.log("val_loss", losses[-1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def trainer(folder, **options):
    chosen = {"accelerator": "cpu"} if len(sys.argv) > 1 else {"accelerator": "gpu", "devices": 1}
    return L.Trainer(
        **chosen, max_epochs=2, logger=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=folder, **options
    )  # fmt: skip


L.seed_everything(4, verbose=False)
data = TensorDataset(torch.randn(32, 12), torch.randint(0, 4, (32,)))
model = Classifier()
with tempfile.TemporaryDirectory() as folder:
    train, held_out = DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=16)
    run = trainer(folder)
    run.fit(model, train, held_out)
    device = run.strategy.root_device
    again = Classifier.load_from_checkpoint(run.checkpoint_callback.best_model_path)
    assert again.device.type == device.type
    if device.type == "cuda":
        kept = list(losses)
        trainer(folder, precision="16-mixed").fit(Classifier(), train)
        losses[:] = kept
