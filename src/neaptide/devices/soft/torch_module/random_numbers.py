"""The device's random numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from neaptide.devices.soft.extension import native
from neaptide.devices.soft.torch_module.one_device import Device, check_device


def _generator() -> torch.Generator:
    generator = native.default_generator()
    assert isinstance(generator, torch.Generator)
    return generator


def manual_seed(seed: int) -> None:
    """Seed the device's generator; torch.manual_seed does it too."""
    _generator().manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> int:
    """Seed from the system."""
    return _generator().seed()


def initial_seed() -> int:
    """The seed in use."""
    return _generator().initial_seed()


def get_rng_state(device: Device = "soft") -> Tensor:
    """The state of the generator, as of the launches so far."""
    check_device(device)
    return _generator().get_state()


def set_rng_state(state: Tensor, device: Device = "soft") -> None:
    """Set the state for the launches to come."""
    check_device(device)
    _generator().set_state(state)


def get_rng_state_all() -> list[Tensor]:
    """The states of all devices; there is one."""
    return [get_rng_state()]


def set_rng_state_all(states: list[Tensor]) -> None:
    """Set the states of all devices."""
    for state in states:
        set_rng_state(state)
