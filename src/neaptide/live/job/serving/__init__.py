"""Requests of a job that serves, known from when they reach the program: `requests` keeps them and tells the daemon,
`servers` finds out which web frameworks the program uses, and the files of the frameworks tell when a request comes
and is answered. No framework is imported here unless the program has imported it.

`live.job.membership` uses it, and `neaptide.request` and `neaptide.serving` are its public face.
"""
