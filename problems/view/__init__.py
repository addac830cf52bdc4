"""The robot and what is estimated of it over time, in a browser."""
