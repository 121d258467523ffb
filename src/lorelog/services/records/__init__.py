"""What happens to records: written, judged, found, compiled, exchanged. The ledger itself is the room `records`."""
