"""Kernels inside CasADi, JAX and PyTorch: cost of a call, a trajectory, a friction fit."""
