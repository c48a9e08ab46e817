"""The public functions for partitions of the rows."""

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
    """Partition the nonzero rows of `A` into blocks, as `rowsolve.Paving` does.

    Parameters
    ----------
    A : array_like or sparse matrix of shape (n, p)
    kind : {"random", "incoherent", "subset", "cluster"}
        ``"random"``: a random partition. ``"incoherent"``: the same, for rows that `incoherence_transform` has mixed.
        ``"subset"``: each block has the best-conditioned rows of those that remain. ``"cluster"``: each block has one
        row of each cluster.
    n_blocks : int, optional
        Number of blocks; by default the squared spectral norm of the normalised rows.
    rng : int or numpy.random.Generator, optional
        Seed or generator for the random choices.

    Returns
    -------
    list of ndarray
        The indices of the rows of each block. ``rowsolve.theory.paving_constants(A, blocks)`` measures their quality.

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
