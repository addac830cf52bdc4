"""Search for pivot orders that cost less than any constructed one.

search      the story: beginnings, generations of runs, the best order as a plan
local       one run: small changes of an order, accepted or not
price       what an order costs and how safe it is, asked thousands of times
exhaustive  all orders of a small system: the least cost, proved
campaign    many searches whose results are files; interrupted ones go on
"""
