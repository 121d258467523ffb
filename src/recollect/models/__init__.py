"""Who computes? One file per provider; each keeps the contract of `core.ports.Embedder`."""
