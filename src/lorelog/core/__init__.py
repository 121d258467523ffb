"""Values, ports and errors that all other packages share, and the version, which the build reads from here.

Standard library and msgspec only, and no I/O, so that anything may import it at no cost.
"""

VERSION = "0.1.0"
