"""Cues: when a memory is delivered, and how that is derived from its text."""
