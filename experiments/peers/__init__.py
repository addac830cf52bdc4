"""dynsys beside other libraries: one way to build, time, judge and describe them."""
