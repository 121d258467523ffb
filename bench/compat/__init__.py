"""Runs the tests that memsearch's authors wrote for memsearch over lorelog.

`shim/memsearch` has memsearch's module names and signatures over our scanner, chunker, transcript readers, store and Python interface; it has no
logic of its own beyond renaming, so that a test that passes says something about lorelog. Nothing of memsearch is copied: its
source distribution is fetched by whoever runs this.
"""
