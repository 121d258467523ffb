"""Settings: defaults < user file < project file (allow-listed keys) < environment < flags, each value with its
origin.

`schema` declares every setting once, `layers` loads them, and `Settings` is the result. `file_editor` changes
settings files and is imported only for that.
"""

from lorelog.config.layers import PROJECT_FILE, USER_FILE, load_settings
from lorelog.config.settings import ChosenValue, Settings

__all__ = ["PROJECT_FILE", "USER_FILE", "ChosenValue", "Settings", "load_settings"]
