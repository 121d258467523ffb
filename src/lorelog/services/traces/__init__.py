"""Traces: what was called, what went wrong, and what was done about it then."""
