"""[BIS] reproduced: R. Featherstone, factorisation of the joint-space inertia matrix, 2005."""
