"""Two networks, two optimizers, and the old tensor types, as the GAN collections on the web are written."""

# ruff: noqa: NPY002 - as such programs are written
import numpy as np
import torch
from torch import nn
from torch.autograd import Variable

cuda = torch.cuda.is_available()
np.random.seed(0)
torch.manual_seed(0)
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor


def block(inside, out, normalize=True):
    layers = [nn.Linear(inside, out)]
    if normalize:
        layers.append(nn.BatchNorm1d(out, 0.8))
    layers.append(nn.LeakyReLU(0.2, inplace=True))
    return layers


generator = nn.Sequential(*block(16, 32, False), *block(32, 64), nn.Linear(64, 64), nn.Tanh())
discriminator = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(0.2, inplace=True), nn.Linear(32, 1), nn.Sigmoid())
adversarial_loss = nn.BCELoss()
if cuda:
    generator.cuda()
    discriminator.cuda()
    adversarial_loss.cuda()
optimizer_g = torch.optim.Adam(generator.parameters(), lr=0.0002, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=0.0002, betas=(0.5, 0.999))
losses = []
for _ in range(6):
    imgs = torch.from_numpy(np.random.normal(0, 1, (8, 64)))
    valid = Variable(Tensor(imgs.size(0), 1).fill_(1.0), requires_grad=False)
    fake = Variable(Tensor(imgs.size(0), 1).fill_(0.0), requires_grad=False)
    real_imgs = Variable(imgs.type(Tensor))
    optimizer_g.zero_grad()
    z = Variable(Tensor(np.random.normal(0, 1, (imgs.shape[0], 16))))
    gen_imgs = generator(z)
    g_loss = adversarial_loss(discriminator(gen_imgs), valid)
    g_loss.backward()
    optimizer_g.step()
    optimizer_d.zero_grad()
    real_loss = adversarial_loss(discriminator(real_imgs), valid)
    fake_loss = adversarial_loss(discriminator(gen_imgs.detach()), fake)
    d_loss = (real_loss + fake_loss) / 2
    d_loss.backward()
    optimizer_d.step()
    losses += [d_loss.item(), g_loss.item()]
device = gen_imgs.device
if cuda:
    assert gen_imgs.is_cuda
    assert isinstance(valid, torch.cuda.FloatTensor)
    assert gen_imgs.type() == "torch.cuda.FloatTensor"
