"""Ollama as a provider of embeddings and completions, on an existing server or in a managed container.

Empty on purpose: the process that stops an idle container imports it.
"""
