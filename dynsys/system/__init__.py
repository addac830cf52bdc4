"""The linear system D(q) d + b(q, qd) = 0: unknowns, equations, pattern, assembly."""
