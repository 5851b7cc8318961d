"""Rules that several policies share: admission, ageing, lanes, precedence, staggering.

Policies import these; each part imports only `core`.
"""
