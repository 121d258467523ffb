"""The Python surface: `Lorelog`, the namespaces of operations on it, and the conversion of Python values."""
