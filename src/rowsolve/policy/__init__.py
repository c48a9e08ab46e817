"""What things cost: the prices that the decisions of `auto` and `refined` rest on. Imports nothing of the package.

Prices are fixed in one file, so that the same call decides alike on every machine.
"""
