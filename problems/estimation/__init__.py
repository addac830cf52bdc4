"""Estimation: unknowns from exact laws and the noisy readings of a layout."""
