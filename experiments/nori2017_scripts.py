"""What the published scripts of [NORI] print: one random state per N, run under Octave.

Additions and multiplications, LU or products with substitution.
"""

__all__ = [
    "SCRIPT_BRANCHED",
    "SCRIPT_CELLS_LU",
    "SCRIPT_CELLS_PERMUTED",
    "SCRIPT_LU",
    "SCRIPT_MATRIX_ABA",
    "SCRIPT_PERMUTED",
    "SCRIPT_PERMUTED_TRUE",
]

SCRIPT_LU = {
    2: (204, 285), 5: (1088, 1180), 10: (3668, 3976), 20: (11683, 13718), 30: (30007, 31665),
}  # fmt: skip
SCRIPT_PERMUTED = {
    2: (173, 237), 5: (675, 795), 10: (1828, 1721), 20: (4021, 3621), 30: (6094, 5692),
}  # fmt: skip
SCRIPT_PERMUTED_TRUE = {
    2: (187, 283), 5: (1118, 1450), 10: (4060, 4873), 20: (9491, 11251), 30: (14576, 17265),
}  # fmt: skip
SCRIPT_MATRIX_ABA = {
    2: (192, 504, 618), 5: (931, 1508, 2314), 10: (2159, 3185, 5141), 20: (4624, 6526, 10790),
    30: (7112, 9919, 16515),
}  # fmt: skip
SCRIPT_CELLS_LU = {
    8: (2450, 3640), 10: (3859, 5393), 12: (5333, 7493), 14: (5969, 8363), 16: (9104, 12192),
    18: (8985, 12190), 20: (12927, 17049),
}  # fmt: skip
SCRIPT_CELLS_PERMUTED = {
    8: (1183, 1825), 10: (1670, 2561), 12: (2170, 3316), 14: (3032, 4582), 16: (3511, 5329),
    18: (3533, 5410), 20: (4329, 6573),
}  # fmt: skip
SCRIPT_BRANCHED = {
    10: (1393, 1847, 2385), 20: (3157, 5577, 6836), 30: (4922, 9227, 11159),
}  # fmt: skip
