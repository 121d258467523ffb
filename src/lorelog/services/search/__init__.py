"""Search one store: candidates of both lanes, ranking, hits, and their cost in tokens. Trust and freshness are added above."""
