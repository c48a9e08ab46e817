"""A race: the time until x reaches a given true error, for rowsolve and other solvers.

The same code runs the corpus of ``benchmarks/``, and ``rowsolve race`` on the files of a user.

May import: `experiments`, `parallel`, `policy.prices`, `policy.thresholds`, and the public names.
"""
