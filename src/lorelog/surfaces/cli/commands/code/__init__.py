"""Commands about code and errors."""
