"""Settings: defaults < user file < project file (allow-listed keys) < environment < flags, each value with its
origin.

`schema` declares every setting once, and `settings` loads them. `file_editor` changes
settings files and is imported only for that.
"""

from lorelog.config.settings import PROJECT_FILE, USER_FILE, ChosenValue, Settings, load_settings

__all__ = ["PROJECT_FILE", "USER_FILE", "ChosenValue", "Settings", "load_settings"]
