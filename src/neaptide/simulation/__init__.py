"""The engine in virtual time: jobs, a device, a budget and a policy in; a log and memory over time out."""

from neaptide.simulation.contention import Contention
from neaptide.simulation.outcome import MemorySeries, Outcome
from neaptide.simulation.run import Submission, simulate

__all__ = ["Contention", "MemorySeries", "Outcome", "Submission", "simulate"]
