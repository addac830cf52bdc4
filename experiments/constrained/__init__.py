"""Constrained dynamics beside Pinocchio and MuJoCo: ``python -m experiments.constrained``."""
