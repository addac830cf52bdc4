"""[CK] reproduced: K.-S. Chang and O. Khatib, operational-space inertia in O(n m), 2001."""
