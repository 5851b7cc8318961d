"""A device without hardware: kernels that take scripted time, on a clock that the caller sets.

Everything but the kernels is real: the board, the leases, the launch layer and the reports. So the rules of sharing can
be tested in virtual time, in one thread and without sleeps, or in real time with processes that tests kill. It is also
the worked example of docs/writing-a-device.md: a device is one folder with a `kind.py` and an agent. Nothing but
`devices` imports it by name.
"""
