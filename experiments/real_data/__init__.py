"""Real measurements, what dynsys makes of them, and pictures of that; see ``parts``."""
