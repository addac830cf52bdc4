"""Pivot orders of a sparse matrix: constructed, taken from libraries, or from the robot."""
