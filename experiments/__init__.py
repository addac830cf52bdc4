"""What is measured and compared; it imports the packages and copies nothing of them.

One folder per paper reproduces its numbers (``python -m experiments.nori2017``): ``rows``
beside ours, ``figures``, and the code that only the paper needs. :mod:`.peers` times others
beside ours, :mod:`.agreement` compares answers, :mod:`.trust` tries on purpose what could go
wrong.
"""
