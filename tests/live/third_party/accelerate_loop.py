"""A loop with Accelerate and accumulated gradients, on a GPU and then on the CPU."""

import json

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from torch import nn

torch.set_num_threads(1)


def fit(cpu):
    AcceleratorState._reset_state(reset_partial_state=True)
    PartialState._reset_state()
    accelerator = Accelerator(cpu=cpu, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    data = torch.utils.data.TensorDataset(torch.randn(112, 16), torch.randn(112, 1))
    update = torch.optim.AdamW(model.parameters())
    model, update, loader = accelerator.prepare(model, update, torch.utils.data.DataLoader(data, batch_size=4))
    for inputs, target in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), target)
            accelerator.backward(loss)
            update.step()
            update.zero_grad()
    model.eval()
    with torch.no_grad():
        for inputs, _ in loader:
            model(inputs)
            break
    return accelerator.device, [parameter.detach().cpu() for parameter in model.parameters()]


device, on_gpu = fit(cpu=False)
_, on_cpu = fit(cpu=True)
same = all(one.equal(other) for one, other in zip(on_gpu, on_cpu, strict=True))
print(json.dumps({"device": device.type, "same": same}))
