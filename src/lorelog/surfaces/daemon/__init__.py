"""The daemon process: one per home, with models and indexes loaded, serving requests over a Unix socket.

The client side is `light/daemon_client.py`, which must stay light.
"""
