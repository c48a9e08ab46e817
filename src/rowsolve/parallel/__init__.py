"""The machine: its cores and free memory, calls that run in parallel, and the number of BLAS threads.

Products of vectors without BLAS are here, too.

May import: `policy.thresholds`.
"""
