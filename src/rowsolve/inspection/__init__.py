"""What can be seen in a system before it is solved: `inspect` and its `Report`."""

from rowsolve.inspection.look import inspect
from rowsolve.inspection.report import Report

__all__ = ["Report", "inspect"]
