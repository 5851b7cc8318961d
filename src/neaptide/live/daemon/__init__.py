"""The engine on real processes: the daemon, its socket, and its control of jobs through the board.

`server` receives messages, `daemon` turns them into events for the controller, and `engine` writes a policy's actions
to the board, with `permits` and `host_moves`. `registration` and `newcomers` are the way of a new job; `io` has the
socket, the files and the log; `watch` looks at the board for what no message tells. Nothing here loads torch. Commands
start the daemon's process through `live.runs`; the command that runs in it, `neaptide up --foreground`, imports
`server`.
"""
