"""How well and how fast code is known, against each language's own tooling."""
