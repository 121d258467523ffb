"""Reviews what the user said: statements are filed as rules and decisions by who understands them."""
