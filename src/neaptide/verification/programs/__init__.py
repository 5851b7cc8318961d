"""Programs that `neaptide verify` starts on the device; each writes what it saw as one line of JSON.

They run as processes of their own, so nothing imports them; they import torch, `models` and each other.
"""
