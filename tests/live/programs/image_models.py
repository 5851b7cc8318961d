"""A loop in the manner of the image model collections: channels last, a stream that prefetches, averaged weights."""

import copy
import sys
import time

import torch
from torch import nn

device = torch.device(sys.argv[2] if len(sys.argv) > 1 else "cuda:0")
cuda = torch.cuda if len(sys.argv) == 1 else torch.soft
torch.manual_seed(42)
torch.backends.cudnn.benchmark = True
if device.type == "cuda":
    print(torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).total_memory)


class PrefetchLoader:
    def __init__(self, batches, device):
        self.batches, self.device = batches, device
        self.mean = torch.tensor([0.5] * 3, device=device).view(1, 3, 1, 1)
        cuda.synchronize()  # torch waits for such a copy on CUDA; soft does not, and the other stream would not see it

    def __iter__(self):
        stream = cuda.Stream(device=self.device)
        given = target = None
        for next_input, next_target in self.batches:
            with cuda.stream(stream):
                next_input = next_input.to(self.device, non_blocking=True).sub_(self.mean)
                next_target = next_target.to(self.device, non_blocking=True)
            if given is not None:
                yield given, target
            cuda.current_stream(device=self.device).wait_stream(stream)
            given, target = next_input, next_target
            given.record_stream(cuda.current_stream())
        yield given, target


class Averaged:
    def __init__(self, model, decay):
        self.module, self.decay = copy.deepcopy(model).eval(), decay

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.module.state_dict().values(), model.state_dict().values(), strict=True):
            mine.copy_(mine * self.decay + theirs * (1 - self.decay) if mine.is_floating_point() else theirs)


model = nn.Sequential(
    *(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.SiLU()),
    *(nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=8), nn.BatchNorm2d(16), nn.ReLU(inplace=True)),
    *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, 10)),
).to(device=device, memory_format=torch.channels_last)
averaged = Averaged(model, 0.9)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.05)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=6)
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1).to(device)
batches = [(torch.randn(4, 3, 12, 12).pin_memory(), torch.randint(0, 10, (4,))) for _ in range(3)]
losses = []
start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
for _ in range(2):
    began = time.time()
    start.record()
    for x, target in PrefetchLoader(batches, device):
        x = x.contiguous(memory_format=torch.channels_last)
        loss = loss_fn(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        averaged.update(model)
        losses.append(loss.item())
    end.record()
    cuda.synchronize()
    print(f"{time.time() - began:.2f} s, {start.elapsed_time(end):.0f} ms, {cuda.max_memory_allocated()} bytes")
    cuda.reset_peak_memory_stats()
    cuda.empty_cache()
    model.eval()
    with torch.inference_mode():
        losses.append(loss_fn(averaged.module(batches[0][0].to(device)), batches[0][1].to(device)).item())
    model.train()
device = loss.device
