"""Spatial algebra, joints, kinematic trees, readers and synthetic robots."""
