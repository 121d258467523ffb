"""HTTP asks: Loop's endpoints, every operation, health, metrics and the document that describes them all."""
