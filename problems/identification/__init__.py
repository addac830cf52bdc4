"""Identification: parameters of a robot from logs of its motion and its sensors."""
