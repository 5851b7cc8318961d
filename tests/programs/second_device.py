"""Asks for a second device, which is not there."""

import torch

print("loss", torch.cuda.device_count())
for ask in (
    lambda: torch.zeros(4, device="cuda:1"),
    lambda: torch.nn.Linear(2, 2).cuda(1),
    lambda: torch.zeros(4).to("cuda:1"),
    lambda: torch.cuda.set_device(1),
    lambda: torch.cuda.get_device_properties(1),
):
    try:
        ask()
    except (RuntimeError, AssertionError) as error:
        print("loss", "invalid device ordinal" in str(error) or "Invalid device id" in str(error), flush=True)
x = torch.zeros(4, device="cuda:1")
