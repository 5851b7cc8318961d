"""From a plan to a program: which action happens at which moment of a recorded iteration, and what is refused.

`planning.executor.run` carries the program out; `fitting` compiles it.
"""
