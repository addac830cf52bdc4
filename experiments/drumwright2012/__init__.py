"""[DRUM] reproduced: E. Drumwright, Theta(n^2) inversion of the inertia matrix, 2012."""
