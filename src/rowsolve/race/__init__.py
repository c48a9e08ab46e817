"""The race: seconds until x is as near to the solution as was asked, ours against what one would take instead.

The same code runs the corpus of ``benchmarks/`` and ``rowsolve race`` on anybody's own files.
"""
