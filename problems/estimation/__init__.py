"""Estimation: unknowns from exact laws and the noisy readings of a layout.

what users touch    estimation (solve, plan, compile), estimate (answers by name, found when
                    asked for); calibration (offsets), alignment (mountings), predict (a sensor
                    from all others)
one state           compiled (machine code), else posterior with factors and assembly: sparse
                    factors, orthogonal ones where something is open
many states         compiled, else reduced_batch: response (kernels of the laws), any_rank;
                    answers says which of them is asked
what to think of it consistency (do the readings agree?), trust (bounds on rounding errors)
"""
