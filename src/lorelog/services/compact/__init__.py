"""Compact: many chunks become one memory that cites them, checked line by line against what they say."""
