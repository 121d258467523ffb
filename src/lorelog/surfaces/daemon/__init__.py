"""The daemon process: one per home, with models and indexes loaded, serving requests over a Unix socket.

The client side is `daemon_client`, which must stay light.
"""
