"""Constraints in plans: order of their rows, their forces, impulses."""
