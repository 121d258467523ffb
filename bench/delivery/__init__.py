"""Measures what reaches an agent, and when."""
