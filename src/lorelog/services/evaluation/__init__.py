"""Measure search quality with judged questions."""
