"""What can be seen in a system before it is solved: `inspect` and its `Report`, and `pave`.

It looks at a sample of the rows and forecasts the solve.

May import: `_solution`, `_validate`, `engine`, `estimate`, `kernels`, `lstsq`, `methods`, `partition`, `policy`,
`problem`, `sources`, and the public names.
"""

from rowsolve.inspection.look import inspect
from rowsolve.inspection.report import Report

__all__ = ["Report", "inspect"]
