"""Placement: which sensors to add within a budget."""
