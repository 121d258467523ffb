"""Backup, restore and export: copies of what nothing else can rebuild."""
