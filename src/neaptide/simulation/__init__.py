"""The engine in virtual time: jobs, a device, a budget and a policy in; a log and memory over time out.

`run` is the entry. `engine` drives the C++ in `native/`; `contention` says how kernels slow each other down, and
`workloads` makes jobs and requests. It imports core only; scenarios, reporting, reproductions, commands and
`neaptide.api` import it.
"""

from neaptide.simulation.contention import Contention
from neaptide.simulation.outcome import MemorySeries, Outcome
from neaptide.simulation.run import Submission, simulate

__all__ = ["Contention", "MemorySeries", "Outcome", "Submission", "simulate"]
