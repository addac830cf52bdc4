"""Ways to compute Lambda^-1: every module here is one, found by its name."""
