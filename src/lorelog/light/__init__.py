"""Everything that a hook, or a command that the daemon answers, loads from below the surfaces.

These processes live for 40 milliseconds, so this room imports only `core` and modules of the standard library that are free:
neither `typing` nor `re`, `json`, `enum`, `pathlib`, `datetime` or msgspec (tests/house/test_start.py). It holds the formats that
both sides share: the daemon's socket, the spool, the tables of cues and guards, the log of deliveries. The services write these files as
ordinary Python.
"""
