"""What is it? The values, ports and errors that every other room speaks in.

Standard library only and no I/O, so that anything may import it at no cost.
"""
