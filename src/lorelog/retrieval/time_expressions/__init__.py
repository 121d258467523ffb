"""Finds times that a query names (`last week`, `in March`, `vor drei Tagen`) and prefers chunks of that time.

Useful for soft preferences in ranking. Not for filters: `--since` and `--until` are parsed elsewhere.
"""
