"""Partitions of rows, for those who want to look at them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rowsolve import _validate
from rowsolve.partition.pavings import KINDS, blocks_of, incoherence_transform
from rowsolve.problem.system import System
from rowsolve.sources import open_rows

__all__ = ["incoherence_transform", "pave"]


def pave(
    A: Any, kind: str = "random", n_blocks: int | None = None, *, rng: int | np.random.Generator | None = None
) -> list[np.ndarray]:
    """Partition the nonzero rows of `A` into blocks, as `rowsolve.Paving` uses them.

    Parameters
    ----------
    A : array_like or sparse matrix of shape (n, p)
    kind : {"random", "incoherent", "subset", "cluster"}
        A random partition; the same, meant for rows that `incoherence_transform` has mixed; again and again the
        best-conditioned rows of those left; one row of each cluster.
    n_blocks : int, optional
        The squared spectral norm of the normalised rows if not given.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    list of ndarray
        The rows of each block. ``rowsolve.theory.paving_constants(A, blocks)`` tells how good they are.

    Examples
    --------
    >>> import numpy as np, rowsolve
    >>> [sorted(block.tolist()) for block in rowsolve.pave(np.repeat(np.eye(2), 2, axis=0), "subset", 2)]
    [[0, 2], [1, 3]]
    """
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(map(repr, KINDS))}, got {kind!r}.")
    source = open_rows(A)
    system = System(source, np.zeros(source.shape[0]))
    return blocks_of(system, kind, n_blocks, _validate.generator_of(rng))
