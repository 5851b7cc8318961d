"""The rules that both engines follow: memory grants, admission, eviction, caps, permits, an iteration's work.

Each rule is one pure function in one file. The simulator, the daemon, the board and the reports call it, so that a rule
means the same in virtual time and on real processes. A rule that C++ must apply at every launch is a header here, which
the simulator, the board and the devices include. The rules import nothing of the project; every room may import them.
"""
