"""The proof in the real hosts: the agents that people run, on loopback, against a model that says what a test wants."""
