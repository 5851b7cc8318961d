"""Networks described layer by layer, as the papers' frameworks saw them, and how far a planner goes on one device.

The reproduction of SuperNeurons imports it.
"""
