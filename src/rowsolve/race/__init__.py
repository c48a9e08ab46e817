"""A race: the time until x is as near to the solution as asked, for rowsolve and its peers.

The same code runs the corpus of ``benchmarks/`` and ``rowsolve race`` on your own files.

May import: `experiments`, `parallel`, and the public names.
"""
