"""Trust: what could go wrong, tried on purpose; see docs/trust.md."""
