"""Metered access to language models and embedders: daily limits, receipts, and the cost report."""
