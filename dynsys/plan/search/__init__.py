"""Search for pivot orders that cost less than any constructed one."""
