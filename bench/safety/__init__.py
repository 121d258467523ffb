"""Measurements of what lorelog promises when it is attacked, killed or asked to forget."""
