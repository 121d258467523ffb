"""Ed25519 identities: private keys, trusted public keys, and signature checks. Not for credentials of models."""
