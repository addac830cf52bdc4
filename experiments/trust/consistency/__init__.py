"""Estimates on every backend against a dense oracle in extended precision."""
