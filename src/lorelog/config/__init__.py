"""What was chosen? Defaults < user file < project file (allow-listed keys) < environment < flags, each value's origin kept.

`schema` declares every setting once; `load` stacks the layers; `Settings` is what comes of it. Changing files is in
`edit`, which is imported by whoever changes one.
"""

from lorelog.config.load import PROJECT_FILE, USER_FILE, load_settings
from lorelog.config.settings import Chosen, Settings

__all__ = ["PROJECT_FILE", "USER_FILE", "Chosen", "Settings", "load_settings"]
