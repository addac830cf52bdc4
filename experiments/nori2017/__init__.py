"""[NORI] reproduced: dynamics by sparse LU with offline permutations, 2017."""
