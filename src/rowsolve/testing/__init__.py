"""Checks of what every method promises, for methods of this package and of others.

>>> import rowsolve
>>> from rowsolve.testing import check_method
>>> check_method(rowsolve.Block(8))

May import: `methods.base`, `policy.thresholds`, and the public names.
"""

from __future__ import annotations

from rowsolve.testing.checks import (
    CHECKS,
    check_capabilities,
    check_consistent,
    check_counts,
    check_inconsistent,
    check_inputs,
    check_method,
    check_repeatable,
    check_resumable,
    check_words,
)

__all__ = [
    "CHECKS",
    "check_capabilities",
    "check_consistent",
    "check_counts",
    "check_inconsistent",
    "check_inputs",
    "check_method",
    "check_repeatable",
    "check_resumable",
    "check_words",
]
