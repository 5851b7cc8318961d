"""From event logs to values: log file -> records and activity -> metrics -> comparison of policies.

Also the folder that a live run leaves. Nothing here prints or draws; the other rooms of `reporting`, commands,
scenarios, reproductions, `verification` and `neaptide.api` import this one.
"""
