"""NVIDIA GPUs, through torch's own CUDA build: memory by an allocator in the place of torch's, launches held at ops.

docs/cuda.md says how it works and what it needs. Only `devices` imports it: `find_kind` by name, and `checkup.gpu`.
Nothing here has been tried on a GPU; the tests run torch's unmodified CUDA build on a device that is not there.
"""
