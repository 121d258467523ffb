"""Trials of the promises on the user's own machine, in temporary homes: kills, a full disk, a read-only home, torn files.

`lorelog doctor --chaos` runs them briefly; `python -m bench.safety.kills` runs the kills a thousand times each.
"""
