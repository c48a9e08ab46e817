"""Every decision of `auto`, `refined` and the forecast of `inspect`, and the list of prices that they rest on.

Prices are fixed in one file, `prices`, which imports nothing: so the same call decides alike on every machine.
"""
