"""Measurements of the promises about safety: secrets, hostile inputs, kills."""
