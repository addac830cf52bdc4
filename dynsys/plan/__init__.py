"""Plans: orders of elimination, what executes them, what they cost, how they are searched.

what a plan is      plan (Plan), plan_file (as JSON text), fingerprint (what it was made for),
                    operations (exact counts), pivots (which divisions are safe, and why)
what executes it    symmetric (dynamics in dual pairs), saddle* (estimation), lu (any square
                    system, pivot by pivot); record (the execution on the expression graph)
who finds an order  orders/ (constructed, from the robot or by libraries), search/ (searched)
beside the point    published (what the scripts behind [NORI] would count)
"""
