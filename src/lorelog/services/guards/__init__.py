"""Guards: their log, proposals from corrections, and replay over past calls."""
