"""Adapters of `Lorelog` for frameworks, one module each. A module needs the package of its framework."""
