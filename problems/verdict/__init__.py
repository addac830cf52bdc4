"""Verdict: what a layout determines before any data, and what would repair it."""
