"""Kernels: programs as machine code or C, and how they are called and kept."""
