"""Measures what is delivered to agents: notes, cues, guards."""
