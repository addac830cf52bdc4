"""Sensors: one class per kind of measurement, each adding rows to the linear system."""
