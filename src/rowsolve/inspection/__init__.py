"""The analysis of a system before it is solved: `inspect` and its `Report`, and `pave`.

`inspect` analyses a sample of the rows and predicts the cost of a solve.

May import: `_solution`, `_validate`, `engine`, `estimate`, `kernels`, `lstsq`, `methods`, `partition`, `policy`,
`problem`, `sources`, and the public names.
"""

from rowsolve.inspection.look import inspect
from rowsolve.inspection.report import Report

__all__ = ["Report", "inspect"]
