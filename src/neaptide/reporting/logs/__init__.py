"""From a run's event log to what it was worth: events -> records and activity -> metrics.

Everything here reads logs and returns values; nothing prints or draws. The other rooms of `reporting` import it.
"""
