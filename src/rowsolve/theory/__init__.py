"""The theoretical statements of the paper as functions, as printed and corrected.

"The paper" is Li, Mo and Ye, "Accelerating Random Kaczmarz Algorithm Based on Clustering Information", AAAI 2016.
A function with the suffix ``_as_printed`` evaluates the statement of the paper, for comparison; the function of the
same name without the suffix evaluates the correct one.

>>> from rowsolve import theory
>>> theory.orthogonality_value([[1.0, 0.0], [3.0, 4.0]])
0.6
>>> theory.condition_number_upper_bound(k=3, eps=0.25)
3.0

May import: `policy.thresholds`.
"""

from rowsolve.theory.cost import Cost, cluster_jl_cost, cluster_jl_cost_as_printed, jl_cost, jl_cost_as_printed
from rowsolve.theory.orthogonality import (
    alignment_probability,
    alignment_probability_upper_bound,
    orthogonality_probability_lower_bound_as_printed,
    orthogonality_value,
)
from rowsolve.theory.paving import PavingConstants, paving_bound, paving_bound_as_printed, paving_constants
from rowsolve.theory.rate import expected_rate
from rowsolve.theory.spectrum import (
    condition_number_upper_bound,
    condition_number_upper_bound_as_printed,
    smallest_singular_value_lower_bound,
    smallest_singular_value_lower_bound_as_printed,
    spectral_norm_lower_bound,
    spectral_norm_lower_bound_as_printed,
    spectral_norm_lower_bound_signed,
    spectral_norm_upper_bound,
    spectral_norm_upper_bound_as_printed,
)

__all__ = [
    "Cost",
    "PavingConstants",
    "alignment_probability",
    "alignment_probability_upper_bound",
    "cluster_jl_cost",
    "cluster_jl_cost_as_printed",
    "condition_number_upper_bound",
    "condition_number_upper_bound_as_printed",
    "expected_rate",
    "jl_cost",
    "jl_cost_as_printed",
    "orthogonality_probability_lower_bound_as_printed",
    "orthogonality_value",
    "paving_bound",
    "paving_bound_as_printed",
    "paving_constants",
    "smallest_singular_value_lower_bound",
    "smallest_singular_value_lower_bound_as_printed",
    "spectral_norm_lower_bound",
    "spectral_norm_lower_bound_as_printed",
    "spectral_norm_lower_bound_signed",
    "spectral_norm_upper_bound",
    "spectral_norm_upper_bound_as_printed",
]
