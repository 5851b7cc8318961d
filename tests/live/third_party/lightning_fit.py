"""Lightning's Trainer, which calls the model inside the optimizer's step, on a GPU and then on the CPU."""

import json
import warnings

import lightning
import torch
from torch import nn

warnings.simplefilter("ignore")
torch.set_num_threads(1)


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
        self.used = None

    def training_step(self, batch):
        self.used = batch[0].device
        return nn.functional.mse_loss(self.layers(batch[0]), batch[1])

    def validation_step(self, batch):
        self.log("loss", nn.functional.mse_loss(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def fit(accelerator):
    lightning.seed_everything(0, verbose=False)
    data = torch.utils.data.TensorDataset(torch.randn(56, 16), torch.randn(56, 1))
    net = Net()
    trainer = lightning.Trainer(
        accelerator=accelerator,
        devices=1,
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=1,
    )
    train, check = (torch.utils.data.DataLoader(data, batch_size=size) for size in (8, 28))
    trainer.fit(net, train, check)
    return net.used, [parameter.detach().cpu() for parameter in net.parameters()]


device, on_gpu = fit("gpu")
_, on_cpu = fit("cpu")
same = all(one.equal(other) for one, other in zip(on_gpu, on_cpu, strict=True))
print(json.dumps({"device": device.type, "same": same}))
