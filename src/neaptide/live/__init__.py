"""The engine on real processes: a daemon that permits iterations, and clients inside the jobs."""
