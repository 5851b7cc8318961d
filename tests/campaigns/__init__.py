"""Many faults in a row, each with its count and nothing lost; the suite runs a few of each.

python tests/campaigns/NAME.py COUNT runs as many as wanted and prints the figures.
"""
