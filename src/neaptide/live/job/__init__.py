"""The part of neaptide inside a job: `attach` joins the parts, `client` speaks the protocol and has no torch,
`connection` is its thread and socket, `measurer` measures. A device takes part as a `DeviceAgent`.

A job's process imports it, and nothing else does.
"""
