"""Stands in for the benchmark's harness: what its contract describes of it, so that the adapter can be tried without the benchmark."""
