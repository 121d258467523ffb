"""Names that tests replace; lorelog's settings are given by its home."""

from pathlib import Path

GLOBAL_CONFIG_PATH = PROJECT_CONFIG_PATH = Path()


class MemSearchConfig:
    """Imported by tests that are not run."""
