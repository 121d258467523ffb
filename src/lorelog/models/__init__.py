"""Models: embedders, rerankers and chat models, local or behind an HTTP API. Only `wiring` imports concrete ones."""
