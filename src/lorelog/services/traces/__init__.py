"""Traces: operations and tools that were called, errors that occurred, and their fixes. Not for memories of what was
said.

Only the name of the spool file is defined here, so that importing it loads nothing.
"""

from __future__ import annotations

SPOOL_FILE = "traces.spool"
"""File beside a tenant's traces with recorded calls that are not in the tables yet."""
