"""Accuracy and speed of the code index, compared with each language's own tools."""
