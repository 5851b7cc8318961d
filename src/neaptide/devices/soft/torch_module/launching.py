"""How far launching may run ahead, and the gates where a launch or a kernel can be held."""

from __future__ import annotations

from neaptide.devices.soft.extension import native


def in_flight() -> int:
    """Kernels launched and not yet done."""
    return int(native.in_flight())


def launched() -> int:
    """Kernels launched so far."""
    return int(native.launched())


def set_in_flight_cap(kernels: int | None) -> None:
    """Let at most `kernels` be launched ahead of the device; None: as many as the queue holds, 1024."""
    if kernels is not None and kernels < 1:
        raise ValueError(f"at least one kernel must be allowed in flight, not {kernels}")
    native.set_in_flight_cap(kernels or 0)


def close_launch_gate() -> None:
    """Hold every launch from now on, before it takes memory."""
    native.close_launch_gate()


def open_launch_gate() -> None:
    """Let launches go on."""
    native.open_launch_gate()


def launch_gate_is_open() -> bool:
    """Whether launches pass."""
    return bool(native.launch_gate_open())


def close_execution_gate() -> None:
    """Hold every kernel that has not begun, before it takes SMs."""
    native.close_execution_gate()


def open_execution_gate() -> None:
    """Let kernels run."""
    native.open_execution_gate()


def execution_gate_is_open() -> bool:
    """Whether kernels pass."""
    return bool(native.execution_gate_open())


def begin_iteration() -> None:
    """Make the next launch begin an iteration on the board, and wait for its permit."""
    native.arm_iteration()


def end_iteration() -> None:
    """End the launched iteration: this process ranks last for memory again."""
    native.end_iteration()
