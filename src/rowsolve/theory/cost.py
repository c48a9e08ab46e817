"""What a greedy step costs with and without clusters, in multiplications.

The paper's proposition compares RKA-JL with k s candidates and RKA-Cluster-JL with s (it sets s = p): both
score s rows of the furthest cluster, so, it says, they are of the same use, while one costs k s d and the other
k p + s d. *It assumes what it concludes*: that the rows with the largest updates lie in the cluster whose centroid
has the largest update. Nothing makes them. A centroid's gap is the mean of the (signed) gaps of its
rows, which may cancel: the furthest rows can then lie in the nearest cluster. What the functions here count is
the cost, and nothing but the cost; whether a step is of the same use, only an experiment can tell.

Counted are multiplications with entries of A, of centroids and of sketches. Drawing candidates and comparing
scores are not, nor divisions by known norms.
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
    """Return the cost of the method ``jl`` as it is built here, where the sketch of x is kept up to date.

    Set-up: the sketches, ``n p d``, and the norms, ``n p``. A step: a score for each candidate, ``n_candidates d``; two
    exact gaps and the update of x, ``3 p``; the update of its sketch, ``d``.
    """
    _check(n=n, p=p, d=d, n_candidates=n_candidates)
    return Cost(n * p * d + n * p, n_candidates * d + 3 * p + d)


def jl_cost_as_printed(n: int, p: int, d: int, n_candidates: int) -> Cost:
    """Return the cost of RKA-JL to the letter: as `jl_cost`, but x is sketched anew at each step, for ``p d``."""
    _check(n=n, p=p, d=d, n_candidates=n_candidates)
    return Cost(n * p * d + n * p, n_candidates * d + 3 * p + p * d)


def cluster_jl_cost(n: int, p: int, k: int, d: int, n_candidates: int) -> Cost:
    """Return the cost of the method ``cluster-jl`` as it is built here, where centroid gaps are kept up to date.

    On top of `jl_cost`. Set-up: the clusters, ``k n p``, and the products of all rows with all centroids, ``k n p``.
    A step: the update of k gaps, ``k``. With as many candidates it always costs more than ``jl``: it is cheaper
    only if fewer candidates do, which the proposition assumes (see the module).

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
    """Return the cost of RKA-Cluster-JL to the letter: all k centroids are measured anew at each step, for ``k p``.

    On top of `jl_cost_as_printed`: the clusters, ``k n p``, once. The proposition holds this, with p candidates,
    against `jl_cost_as_printed` with k p candidates, and finds O(p log p) against O(p log(p)^2) for k and d in
    O(log p). The counts are right; that both find equally good rows is assumed, not shown (see the module).
    """
    _check(k=k)
    set_up, per_step = jl_cost_as_printed(n, p, d, n_candidates)
    return Cost(set_up + k * n * p, per_step + k * p)


def _check(**counts: int) -> None:
    for name, value in counts.items():
        check_count(name, value)
