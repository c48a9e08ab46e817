"""Compare the time to cluster the rows in one pass with that of scikit-learn's MiniBatchKMeans.

    make bench-kmeans                         # all cores
    .venv/bin/python benchmarks/kmeans.py 1   # one thread

Both read each row once and start with k-means++, in turns; the minimum of several repeats counts. MiniBatchKMeans is
run in two ways: `fit` with `max_iter=1` (initialised from a sample of 3,072 rows), and `partial_fit` over batches of
1,024 rows in the order in which they are stored (initialised from the first batch). Neither of these assigns labels to
the rows; rowsolve does, in the same pass. Inertia is the sum of squared distances to the nearest centroid, divided by
that of `fit`: smaller is better.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from scipy import sparse
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_limits

from rowsolve.experiments.problems import clustered_system
from rowsolve.parallel.pool import available_cores
from rowsolve.partition.clusters import cluster_rows
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

BATCH, REPEATS = 1024, 5
CASES = [  # rows, columns, clusters, dtype, density
    *((10_000, 1_000, k, np.float64, 1.0) for k in (4, 16, 64)),
    (100_000, 50, 8, np.float64, 1.0),
    *((10_000, 1_000, k, np.float32, 1.0) for k in (4, 16, 64)),
    (100_000, 50, 8, np.float32, 1.0),
    *((10_000, 1_000, k, np.float64, 0.01) for k in (4, 16, 64)),
    (100_000, 1_000, 8, np.float64, 0.01),
]


def rows_of(n, p, k, dtype, density):
    """Return rows in `k` clusters, or sparse rows without clusters."""
    if density < 1.0:
        return sparse.random_array((n, p), density=density, format="csr", rng=np.random.default_rng(0), dtype=dtype)
    return clustered_system(n, p, k, 0.5, noise=1.0, rng=0)[0].astype(dtype)


def ours(A, k, threads):
    """Return the centroids of one pass of rowsolve."""
    system = System(open_rows(A), np.zeros(A.shape[0]), threads=threads)
    return cluster_rows(system, k, np.random.default_rng(0), metric="euclidean").centroids


def fit(A, k):
    """Return the centroids of one epoch of MiniBatchKMeans."""
    return MiniBatchKMeans(k, max_iter=1, n_init=1, batch_size=BATCH, random_state=0).fit(A).cluster_centers_


def partial_fit(A, k):
    """Return the centroids of MiniBatchKMeans after batches of rows in the order in which they are stored."""
    model = MiniBatchKMeans(k, n_init=1, batch_size=BATCH, random_state=0)
    for start in range(0, A.shape[0], BATCH):
        model.partial_fit(A[start : start + BATCH])
    return model.cluster_centers_


def inertia(A, centroids):
    """Return the sum of squared distances to the nearest centroid."""
    own = (A.multiply(A) if sparse.issparse(A) else A * A).sum()
    return own + ((centroids**2).sum(axis=1) - 2 * (A @ centroids.T)).min(axis=1).sum()


def timed(call, *args):
    """Return the time of a call in milliseconds."""
    started = time.perf_counter()
    call(*args)
    return 1e3 * (time.perf_counter() - started)


def main():
    """Print the table."""
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else available_cores()
    warnings.simplefilter("ignore")  # one epoch does not converge
    print(f"milliseconds, minimum of {REPEATS}, {threads} thread(s) each; ratio = time / time of rowsolve")
    print(f"{'rows':>25}{'k':>4}{'rowsolve':>10}{'fit':>8}{'ratio':>7}{'partial_fit':>13}{'ratio':>7}{'inertia':>9}")
    for case in CASES:
        A, (n, p, k, dtype, density) = rows_of(*case), case
        calls = [(ours, A, k, threads), (fit, A, k), (partial_fit, A, k)]
        with threadpool_limits(threads):
            found = [call(*args) for call, *args in calls]  # compiles and warms up
            times = [[timed(*call) for call in calls] for _ in range(REPEATS)]
        mine, whole, parts = (min(column) for column in zip(*times, strict=True))
        kind = "csr" if density < 1.0 else np.dtype(dtype).name
        print(
            f"{f'{n:,} x {p:,} {kind}':>25}{k:>4}{mine:>10.1f}{whole:>8.0f}{whole / mine:>6.1f}x{parts:>13.0f}"
            f"{parts / mine:>6.1f}x{inertia(A, found[0]) / inertia(A, found[1]):>9.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
