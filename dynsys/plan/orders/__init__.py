"""Pivot orders of a sparse matrix: constructed, taken from libraries, or from the robot.

orders              PivotOrder, and the interface of everything that finds one
peeling             rows and columns with one entry: what substitution solves
dulmage_mendelsohn  matching, blocks: which equations can determine which unknowns
markowitz           the pivot of least work at every step, among the safe ones
restarts            the same with noise and other weights, by the thousand
recursive_orders    along the tree, as the recursions of the textbooks go
libraries           SuperLU, UMFPACK and CHOLMOD, for comparison
"""
