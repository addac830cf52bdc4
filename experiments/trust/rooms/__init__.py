"""Hostile arguments to every call that takes arrays."""
