"""Changes of code: what a diff runs against."""
