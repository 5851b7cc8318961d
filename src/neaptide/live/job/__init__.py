"""The part of neaptide inside a job: attaching, finding iterations, measuring the first ones, waiting for permits.

A job's process imports it, and nothing else does.
"""
