"""Which kernels wait before a closed gate. heavy.h has the same rule for C++.

A kernel is light when two like it fit on the device side by side without slowing each other. Herald's own threshold is
unpublished; this one is ours.
"""

from __future__ import annotations

LIGHT_FILL = 0.5  # the largest share of the device's SMs that a light kernel uses


def is_heavy(width: int, sms: int) -> bool:
    """Whether a kernel that uses `width` of the device's `sms` leaves no room for a second like it."""
    return width / sms > LIGHT_FILL
