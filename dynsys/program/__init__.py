"""The expression graph: computations recorded once for a robot, simplified and counted."""
