"""Search for pivot orders that cost less than any constructed one.

search      the story: beginnings, generations of runs, the best order as a plan
local       one run: greedy orders, or changes of one, accepted or not
price       what an order costs and how safe it is, asked thousands of times
values      programs counted by the values of their nodes, in a millisecond
saddle_*    the same for saddle systems: redundant readings
campaign    many searches whose results are files; interrupted ones go on
"""
