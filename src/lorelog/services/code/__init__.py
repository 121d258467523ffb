"""Verbs on source code: indexing it, and answering who defines, uses, calls and imports what."""
