"""Names of files, for those who write them and those who take them in. Nothing else is here, so that naming one loads nothing."""

from __future__ import annotations

SPOOL = "traces.spool"
"""What operations have noted and nobody has taken in yet, beside a tenant's traces."""
