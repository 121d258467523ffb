"""Values, ports and errors that all other packages share.

Standard library only and no I/O, so that anything may import it at no cost.
"""
