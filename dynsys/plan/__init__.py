"""Plans: orders of elimination, what executes them, what they cost, how they are searched.

what a plan is      plan (Plan), methods (the orders that plans hold), plan_file (as JSON text),
                    fingerprint (what it was made for), operations (exact counts), pivots (which
                    divisions are safe, and why)
dynamics            symmetric (in dual pairs), quadratic_form (its three steps), step_order
                    (which orders of them work), record (executed on the expression graph)
estimation          estimator_spec (the question), estimator (who answers it): saddle* (least
                    squares), lu* (as many readings as unknowns), recursion with open_* (inverse
                    dynamics with a few parameters); repeated_rows (statements made twice)
who finds an order  orders/ (constructed, from the robot or by libraries), search/ (searched)
beside the point    published (what the scripts behind [NORI] would count)
"""
