"""Agreement with other programs: the same robots, the same states, the same questions."""
