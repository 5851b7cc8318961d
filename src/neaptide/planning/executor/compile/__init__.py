"""From a plan to a program: which action happens at which moment of a recorded iteration, and what is refused.

It imports `core` and the rooms of `planning` below the planners, never `executor.run`. `executor.run` and `fitting`
import it.
"""
