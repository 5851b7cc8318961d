"""The vocabulary of the project: no torch, no files, no clock, no randomness."""
