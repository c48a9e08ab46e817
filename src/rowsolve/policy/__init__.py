"""What things cost, and the decisions that follow from it. Imports nothing of the package.

Prices are fixed in one file, so that the same call decides alike on every machine.
"""
