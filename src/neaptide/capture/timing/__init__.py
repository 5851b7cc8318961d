"""How long ops take: measured by the framework or the device, or estimated by a cost model.

`capture` itself imports it.
"""
