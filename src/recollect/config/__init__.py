"""What was chosen? Defaults < user file < project file (allow-listed keys) < environment < flags, each value's origin kept."""
