"""Every decision of `auto`, `refined` and the forecast of `inspect`, and the prices that they rest on.

Prices are fixed in `prices`, not measured, so the same call decides alike on every machine. `auto` is the only module
here that knows methods.

May import: `_solution`, `estimate`, `kernels`, `lstsq`, `methods`, `parallel`, `problem`.
"""
