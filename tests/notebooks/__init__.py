"""Notebooks, executed."""
