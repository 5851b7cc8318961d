"""A pool of threads asks one model."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
model = model.cuda().eval()
images = torch.randn(64, 2, 3, 24, 24)


@torch.inference_mode()
def predict(number):
    return model(images[number].cuda()).sum().item()


with ThreadPoolExecutor(max_workers=8) as pool:
    answers = list(pool.map(predict, range(64)))
for number, answer in enumerate(answers):
    print("loss", number, answer.hex(), flush=True)
