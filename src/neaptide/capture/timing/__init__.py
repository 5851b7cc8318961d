"""How long ops take: by the framework's profiler, by the device's log of its kernels, or by a cost model.

Only `capture` and `fitting` import it.
"""
