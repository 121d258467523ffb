"""Where is it kept? One package per backend; each keeps the contract of `core.ports.Store`."""
