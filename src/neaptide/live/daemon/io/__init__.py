"""The daemon's socket, its files and its log: what comes in, within limits, and what is kept.

`connections` reads messages and writes answers, `listening_socket` accepts, `files` guards the runtime folder, and
`log_writer` writes whole lines. What a message means is decided in `daemon`. Only `live.daemon` imports it.
"""
