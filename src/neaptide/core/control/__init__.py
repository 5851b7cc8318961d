"""The one controller: jobs, events, actions, views, the policy and engine interfaces, the ledger, and the log's format.

Policies, engines and reports import it.
"""
