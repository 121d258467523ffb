"""Storage backends, one module or package each; every store implements `core.ports.Store`."""
