"""The cost of a greedy step with and without clusters, in multiplications.

The paper's proposition compares RKA-JL with k s candidates and RKA-Cluster-JL with s candidates (it sets s = p). Both
score s rows of the furthest cluster, so the paper says that their steps are equally effective, while one costs k s d
and the other k p + s d. *This assumes the conclusion*: that the rows with the largest updates are in the cluster whose
centroid has the largest update. That need not hold. The gap of a centroid is the mean of the (signed) gaps of its rows,
which may cancel, so that the furthest rows may be in the nearest cluster. The functions here count the cost only;
whether the steps are equally effective must be determined by experiment.

Multiplications with entries of A, of centroids and of sketches are counted. Drawing candidates, comparing scores, and
divisions by known norms are not.
"""

from __future__ import annotations

from typing import NamedTuple

from rowsolve.theory._inputs import check_count

__all__ = ["Cost", "cluster_jl_cost", "cluster_jl_cost_as_printed", "jl_cost", "jl_cost_as_printed"]


class Cost(NamedTuple):
    """Multiplications before the first step, and for each step."""

    set_up: int
    per_step: int

    def total(self, n_steps: int) -> int:
        """Return ``set_up + n_steps * per_step``."""
        check_count("n_steps", n_steps, least=0)
        return self.set_up + n_steps * self.per_step


def jl_cost(n: int, p: int, d: int, n_candidates: int) -> Cost:
    """Return the cost of the method ``jl`` as implemented here, where the sketch of x is updated in every step.

    Set-up: the sketches, ``n p d``, and the norms, ``n p``. A step: a score for each candidate, ``n_candidates d``; two
    exact gaps and the update of x, ``3 p``; the update of its sketch, ``d``.
    """
    _check(n=n, p=p, d=d, n_candidates=n_candidates)
    return Cost(n * p * d + n * p, n_candidates * d + 3 * p + d)


def jl_cost_as_printed(n: int, p: int, d: int, n_candidates: int) -> Cost:
    """Return the cost of RKA-JL as published: as `jl_cost`, but x is sketched again in each step, for ``p d``."""
    _check(n=n, p=p, d=d, n_candidates=n_candidates)
    return Cost(n * p * d + n * p, n_candidates * d + 3 * p + p * d)


def cluster_jl_cost(n: int, p: int, k: int, d: int, n_candidates: int) -> Cost:
    """Return the cost of the method ``cluster-jl`` as implemented here, where centroid gaps are updated in every step.

    In addition to `jl_cost`: for the set-up, the clusters, ``k n p``, and the products of all rows with all centroids,
    ``k n p``; for a step, the update of k gaps, ``k``. With the same number of candidates it always costs more than
    ``jl``: it is cheaper only if fewer candidates suffice, as the proposition assumes (see the module).

    Parameters
    ----------
    n, p : int
        Shape of A.
    k : int
        Number of clusters.
    d : int
        Size of a sketch.
    n_candidates : int
        Rows scored at each step, all of one cluster.
    """
    _check(k=k)
    set_up, per_step = jl_cost(n, p, d, n_candidates)
    return Cost(set_up + 2 * k * n * p, per_step + k)


def cluster_jl_cost_as_printed(n: int, p: int, k: int, d: int, n_candidates: int) -> Cost:
    """Return the cost of RKA-Cluster-JL as published: the gaps of k centroids are recomputed in each step, for ``k p``.

    In addition to `jl_cost_as_printed`: the clusters, ``k n p``, once. The proposition compares this, with p
    candidates, to `jl_cost_as_printed` with k p candidates, and finds O(p log p) against O(p log(p)^2) for k and d in
    O(log p). The counts are right; that both find equally good rows is assumed, not proved (see the module).
    """
    _check(k=k)
    set_up, per_step = jl_cost_as_printed(n, p, d, n_candidates)
    return Cost(set_up + k * n * p, per_step + k * p)


def _check(**counts: int) -> None:
    for name, value in counts.items():
        check_count(name, value)
