"""Lightning with manual optimization: a GAN with two optimizers."""

import logging
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class GAN(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 100), nn.Tanh())
        self.discriminator = nn.Sequential(nn.Linear(100, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def training_step(self, batch, _):
        of_generator, of_discriminator = self.optimizers()
        real, z = batch[0], torch.randn(batch[0].shape[0], 16, device=self.device)
        ones, zeros = torch.ones(len(z), 1, device=self.device), torch.zeros(len(z), 1, device=self.device)
        wrong = nn.functional.binary_cross_entropy_with_logits
        self.toggle_optimizer(of_generator)
        g_loss = wrong(self.discriminator(self.generator(z)), ones)
        of_generator.zero_grad()
        self.manual_backward(g_loss)
        of_generator.step()
        self.untoggle_optimizer(of_generator)
        self.toggle_optimizer(of_discriminator)
        fake = self.generator(z).detach()
        d_loss = (wrong(self.discriminator(real), ones) + wrong(self.discriminator(fake), zeros)) / 2
        of_discriminator.zero_grad()
        self.manual_backward(d_loss)
        of_discriminator.step()
        self.untoggle_optimizer(of_discriminator)
        print("loss", g_loss.item().hex(), d_loss.item().hex(), flush=True)

    def configure_optimizers(self):
        return [torch.optim.Adam(net.parameters(), lr=2e-4) for net in (self.generator, self.discriminator)]


L.seed_everything(2, verbose=False)
loader = DataLoader(TensorDataset(torch.randn(160, 100)), batch_size=16)
options = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False, "enable_model_summary": False}
trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=3, **options)
trainer.fit(GAN(), loader)
print("device", trainer.strategy.root_device.type)
