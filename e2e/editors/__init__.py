"""Editors by the distribution's packages, each with its own client of language servers."""
