"""How many kernels beyond the one that runs may have taken their memory. in_flight.h counts them."""

from __future__ import annotations

# A kernel's memory is taken when it is launched, so launching far ahead takes memory early. Memory curves are read
# with this many kernels launched ahead.
DEFAULT_IN_FLIGHT = 64

# While a job with a deadline is attached, best-effort kernels launched beyond the one that runs take at most this long:
# a kernel that is on the device cannot be called back. A kernel that takes longer is launched alone.
IN_FLIGHT_NS = 2_000_000


def in_flight_cap(asked: int | None, jobs: int) -> int | None:
    """The cap that an engine sets for a job; None: as far as the device's queue reaches.

    `asked` is the policy's cap, and `jobs` counts the jobs on the device, the job itself included. A policy that asks
    for no cap gets the default beside other jobs: their starts are planned with this job's curve, which assumes the
    default cap. A job that is alone has no bound, because no other job needs the memory.
    """
    if asked is not None:
        return asked
    return None if jobs == 1 else DEFAULT_IN_FLIGHT
