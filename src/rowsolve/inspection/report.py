"""What an inspection gives back."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Condition", "Directions", "Layout", "Noise", "Norms", "Prediction", "Report"]


@dataclass(frozen=True)
class Layout:
    """How A is stored: in "C" or "Fortran" order, "strided", or "CSR"."""

    n_rows: int
    n_columns: int
    dtype: str
    order: str
    density: float  # the share of the entries that are stored


@dataclass(frozen=True)
class Norms:
    """The norms of the sampled rows: the least and the most of those that are not zero; None if all are."""

    n_rows: int
    n_zero: int
    contradiction: int | None = None  # a row, of all that were read, that is zero although its b is not
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Condition:
    """The ratio of the largest to the smallest singular value that is not zero.

    That of all rows is between `least` and `most` (None if not known), if no few rows carry a direction alone.
    """

    sampled: float  # of the sampled rows, within some 20%
    least: float
    most: float | None
    rank: int  # of the sampled rows
    n_rows: int


@dataclass(frozen=True)
class Directions:
    """Which way the sampled rows point: clusters, and medians of the absolute cosines of pairs of rows."""

    n_clusters: int  # 0 if there are none
    cosine: float | None  # of a row and the centroid of its cluster, root mean square; None without clusters
    typical: float  # of all pairs
    of_gaussian: float  # of Gaussian rows with as many columns
    within: float | None  # of pairs of the same cluster; None if there are no two clusters
    across: float | None  # of pairs of different clusters
    largest: float  # of all pairs: the orthogonality value of the sample (`rowsolve.theory.orthogonality_value`)
    n_rows: int  # one half made the clusters, the other judged them and made the pairs


@dataclass(frozen=True)
class Noise:
    """How far the equations are from agreeing: the root mean square of the noise over that of b, wild rows apart."""

    relative: float | None  # 0 if there is none beyond rounding, None if it is not known
    at_most: float | None = None  # if not: the relative residual that random rows have got down to
    suspected: bool = False  # whether x did not settle meanwhile
    n_wild: int = 0  # of the sampled rows, more than 12 times as far off as half of them
    n_rows: int = 0


@dataclass(frozen=True)
class Prediction:
    """What a method is expected to take: rows to read, and seconds; None if it never gets there, or if not known."""

    method: str
    rows: float | None = None
    seconds: float | None = None
    at_least: bool = False  # whether it may well be more
    reaches: bool | None = None  # whether x comes within the tolerance; None if not known
    remark: str = ""


@dataclass(frozen=True)
class Report:
    """What `rowsolve.inspect` has seen; ``print(report)`` says it in words.

    Attributes
    ----------
    layout : Layout
    norms : Norms
    condition : Condition or None
        None if a factor of a sample would take too long, or if all sampled rows are zero.
    directions : Directions or None
        None if there are too few rows, or only one column.
    noise : Noise
    slowness : float or None
        How many times more random rows it takes than with a well-conditioned A, by the pace of the first few p.
    predictions : tuple of Prediction
        For a relative error of `rtol` in x, with so many `threads`.
    first, method, advice : str
        The method that ``"auto"`` begins with, the one to ask for, and why.
    rtol : float
    threads : int
    rows_read : int
    checked : bool
        Whether all of A was looked at for NaN and infinity, or only the rows that were read.
    seconds : float
        What the inspection took, without compiling or loading the kernels.
    """

    layout: Layout
    norms: Norms
    condition: Condition | None
    directions: Directions | None
    noise: Noise
    slowness: float | None
    predictions: tuple[Prediction, ...]
    first: str
    method: str
    advice: str
    rtol: float
    threads: int
    rows_read: int
    checked: bool
    seconds: float

    def __str__(self) -> str:
        from rowsolve.inspection.words import in_words

        return in_words(self)
