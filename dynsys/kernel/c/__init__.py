"""Programs as dependency-free C99, with a self-test."""
