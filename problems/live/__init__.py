"""Estimates while the robot moves: a sample comes in, an estimate goes out."""
