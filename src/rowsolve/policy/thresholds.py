"""Every threshold of a decision and every tolerance that is not a price: its unit, and where it was measured.

Prices are in `rowsolve.policy.prices`. Constants of compiled loops are in `rowsolve.kernels`, since the cache of
machine code depends on the sources there. A module imports what it needs by name; each name has one value.
"""

from __future__ import annotations

import numpy as np

# --- Rounding and range ---------------------------------------------------------------------------------------------
EPS = float(np.finfo(float).eps)  # one unit of rounding
AS_GIVEN = 0.3  # units: the rounding error of the numbers of a row
SUM = 4.0  # units: the rounding error of a product of some terms, or of a sum whose terms have one sign
ROUNDED = 64.0  # units of rounding of b, or of A z, that are taken for zero
IN_RANGE = 1e100  # lengths up to this, and down to its reciprocal, have squares whose sums do not overflow or vanish

# --- Safety: factors and tries that several decisions share -----------------------------------------------------------
UNLUCKY = 1e3  # 1 / p is the mean squared component of a random unit vector; with probability 1 / 40 it is 1000 smaller
SURE = 0.1  # of the error allowed: a smaller estimate needs no further pass to be certain
SAFE_CONDITION = 1e6  # up to which a correction by the squares of A estimates the error
STEPS = 4  # of iterative refinement, at most

# --- Sizes that several decisions share -------------------------------------------------------------------------------
FEW_COLUMNS = 64  # a dense factor of so few costs less than anything else
MOST_COLUMNS = 10_000  # of a dense factor: 800 MB
FAR_OUT = 12.0  # times the median distance makes an outlier: normal noise reaches 5 in some thousand rows

# --- Error estimate and engine ----------------------------------------------------------------------------------------

# --- Least squares ----------------------------------------------------------------------------------------------------

# --- Choice of a method -----------------------------------------------------------------------------------------------

# --- Methods ----------------------------------------------------------------------------------------------------------

# --- Analysis, races and experiments ----------------------------------------------------------------------------------

# --- Storage ----------------------------------------------------------------------------------------------------------
