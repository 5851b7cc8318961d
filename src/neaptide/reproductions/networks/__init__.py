"""Networks described layer by layer, as SuperNeurons' runtime saw them, and the largest that fit a device.

The reproduction of SuperNeurons imports it.
"""
