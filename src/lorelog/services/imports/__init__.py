"""Imports of other tools' memories: one writer for all sources, and batches that can be taken back."""
