"""Every threshold of a decision and every tolerance that is not a price: its unit, and where it was measured.

Prices are in `rowsolve.policy.prices`. Constants of compiled loops are in `rowsolve.kernels`, since the cache of machine
code depends on the sources there. A module imports what it needs by name; each name has one value.
"""

from __future__ import annotations

import numpy as np

# --- Precision ----------------------------------------------------------------------------------------------------
EPS = float(np.finfo(float).eps)
UNLUCKY = 1e3  # 1 / p is the mean squared component of a random unit vector; with probability 1 / 40 it is 1000 smaller
ROUNDED = 64.0  # units of rounding of b below which a residual is zero, and all equations are satisfied

# --- Error estimate and engine --------------------------------------------------------------------------------------

# --- Least squares --------------------------------------------------------------------------------------------------

# --- Choice of a method ---------------------------------------------------------------------------------------------

# --- Methods --------------------------------------------------------------------------------------------------------

# --- Analysis, races and experiments --------------------------------------------------------------------------------

# --- Storage --------------------------------------------------------------------------------------------------------
