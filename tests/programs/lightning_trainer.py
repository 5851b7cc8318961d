"""Lightning's Trainer with a validation loop and a checkpoint."""

import logging
import tempfile
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(28 * 28, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))

    def training_step(self, batch, _):
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        print("loss", loss.item().hex(), flush=True)
        return loss

    def validation_step(self, batch, _):
        self.log("val", nn.functional.cross_entropy(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


L.seed_everything(1, verbose=False)
data = TensorDataset(torch.randn(128, 28 * 28), torch.randint(0, 10, (128,)))
net = Net()
with tempfile.TemporaryDirectory() as folder:
    trainer = L.Trainer(max_epochs=3, logger=False, enable_progress_bar=False, default_root_dir=folder)
    trainer.fit(net, DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=64))
print("loss", trainer.callback_metrics["val"].item().hex())
print("device", trainer.strategy.root_device.type)
