"""The rules of sharing, each in a file of its own: memory grants, admission, eviction, heavy kernels, caps, work.

They are pure functions and constants. The simulator, the daemon, the board and the reports use the same ones, so that a
rule means the same in virtual time and on real processes. A rule that C++ must apply at every launch is a header here,
which the simulator, the board and the devices include; heavy kernels and caps have a Python file beside the header.
`permits` is for the daemon alone, and so is `patience` but for KEPT_NS: in virtual time no process waits for a permit
or fails to answer. A rule imports at most another rule; every room may import them.
"""
