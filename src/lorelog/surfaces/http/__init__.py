"""The HTTP surface: the operations as JSON endpoints, Loop's endpoints, metrics, and the wiki in a browser."""
