"""Plans: orders of elimination, what executes them, what they cost, how they are searched."""
