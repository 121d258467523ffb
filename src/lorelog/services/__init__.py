"""Use cases of the product, one package per subject, written against the ports of `core` only."""
