"""Laws of motion and readings of sensors on the same unknowns, before any data is solved."""
