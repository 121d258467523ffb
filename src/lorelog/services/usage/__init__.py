"""History of deliveries, and whether the memories were used."""
