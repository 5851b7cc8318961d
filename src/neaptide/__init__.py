"""Run more PyTorch jobs on one GPU than fit."""

__version__ = "0.1.0"
