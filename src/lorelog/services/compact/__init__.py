"""Summarize many chunks in one memory that cites them; every line is checked against its sources."""
