"""The machine: its cores and memory, calls that run side by side, and the threads of BLAS.

Products of vectors that need no BLAS are here too.

May import: nothing.
"""
