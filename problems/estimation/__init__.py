"""Estimation: unknowns from exact laws and the noisy readings of a layout.

what users touch    estimation (solve, plan, compile), estimate (answers by name, found when
                    asked for); calibration (offsets), alignment (mountings), predict (a sensor
                    from all others)
what it means       estimator: defines the answer, in plain NumPy
one state           compiled (machine code), else posterior: the estimator, or sparse factors
                    (factors, assembly) where hundreds of unknowns are open
many states         compiled, else reduced_batch: response (kernels of the laws), many_states
                    (the estimator's factors, stacked); answers says which of them is asked
what to think of it consistency (do the readings agree?), trust (bounds on rounding errors)
"""
