"""Devices that jobs share: the software GPU, and what every device has in common."""
