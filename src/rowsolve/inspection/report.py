"""The result of `inspect`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Condition", "Directions", "Effort", "Layout", "Noise", "Norms", "Prediction", "Report"]


@dataclass(frozen=True)
class Layout:
    """The shape and storage of A.

    Attributes
    ----------
    n_rows, n_columns : int
    dtype : str
    order : {"C", "Fortran", "strided", "CSR"}
        ``"C"`` if the entries of each row are contiguous.
    density : float
        The fraction of the entries that are stored.
    """

    n_rows: int
    n_columns: int
    dtype: str
    order: str
    density: float


@dataclass(frozen=True)
class Norms:
    """The norms of the sampled rows.

    Attributes
    ----------
    n_rows, n_zero : int
        The number of sampled rows, and of rows of zeros among them.
    contradiction : int or None
        A row of zeros whose entry of b is not zero, if one was read.
    least, most : float or None
        The smallest and the largest norm of the nonzero rows; None if there are none.
    """

    n_rows: int
    n_zero: int
    contradiction: int | None = None
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Condition:
    """The condition number: the ratio of the largest to the smallest nonzero singular value.

    Attributes
    ----------
    sampled : float
        That of the sampled rows, to within some 20%.
    least, most : float, or None for `most` if it is not known
        Bounds on that of all rows, unless a direction is determined by a few rows only.
    rank : int
        The rank of the sampled rows.
    n_rows : int
        The number of sampled rows.
    """

    sampled: float
    least: float
    most: float | None
    rank: int
    n_rows: int


@dataclass(frozen=True)
class Directions:
    """The directions of the sampled rows: clusters, and absolute cosines of the angles between pairs of rows.

    Attributes
    ----------
    n_clusters : int
        0 if there are none.
    cosine : float or None
        The root mean square cosine between a row and the centroid of its cluster; None without clusters.
    typical : float
        The median cosine of all pairs.
    of_gaussian : float
        The same for Gaussian rows with as many columns.
    within, across : float or None
        The median cosine of pairs in the same cluster and in different ones; None with fewer than two clusters.
    largest : float
        The largest cosine: the orthogonality value of the sample (`rowsolve.theory.orthogonality_value`).
    n_rows : int
        The number of sampled rows, of which one half defines the clusters and the other half is used for the rest.
    """

    n_clusters: int
    cosine: float | None
    typical: float
    of_gaussian: float
    within: float | None
    across: float | None
    largest: float
    n_rows: int


@dataclass(frozen=True)
class Noise:
    """The noise in b, that is, how far the system is from being consistent.

    Attributes
    ----------
    relative : float or None
        The root mean square of the noise over that of b, without outliers; 0 if it is mere rounding, None if unknown.
    at_most : float or None
        If `relative` is unknown, the relative residual that was reached with random rows.
    suspected : bool
        Whether the iterates did not settle meanwhile.
    n_wild : int
        The number of outliers among the sampled rows: those more than 12 times as far off as the median.
    n_rows : int
        The number of sampled rows.
    """

    relative: float | None
    at_most: float | None = None
    suspected: bool = False
    n_wild: int = 0
    n_rows: int = 0


@dataclass(frozen=True)
class Prediction:
    """The predicted cost of a method.

    Attributes
    ----------
    method : str
    rows, seconds : float or None
        The rows to read and the time until convergence; None if it does not converge, or if unknown.
    at_least : bool
        Whether `rows` and `seconds` are lower bounds.
    reaches : bool or None
        Whether x reaches the tolerance; None if unknown.
    remark : str
    """

    method: str
    rows: float | None = None
    seconds: float | None = None
    at_least: bool = False
    reaches: bool | None = None
    remark: str = ""


@dataclass(frozen=True)
class Effort:
    """What the inspection itself took.

    Attributes
    ----------
    threads : int
        The number of threads with which the methods were timed.
    rows_read : int
    checked : bool
        Whether all of A was checked for NaN and infinity, or only the rows that were read.
    seconds : float
        The duration, without compiling or loading the kernels.
    """

    threads: int
    rows_read: int
    checked: bool
    seconds: float


@dataclass(frozen=True)
class Report:
    """The result of `rowsolve.inspect`; ``print(report)`` shows it as text.

    Attributes
    ----------
    layout : Layout
        The shape and storage of A.
    norms : Norms
        The norms of the rows.
    condition : Condition or None
        The condition number. None if factoring a sample would take too long, or if all sampled rows are zero.
    directions : Directions or None
        The clusters of the rows and the angles between rows. None if there are too few rows, or only one column.
    noise : Noise
        The noise in b, and outliers.
    slowness : float or None
        The number of random rows needed, relative to a well-conditioned A, estimated from the convergence over the
        first few p rows. None if unknown.
    predictions : tuple of Prediction
        The predicted cost of each method, for a relative error of `rtol` in x with `threads` threads.
    first, method, advice : str
        The method that ``"auto"`` begins with, the method to choose, and why.
    rtol : float
        The relative error of x for which the cost is predicted.
    effort : Effort
        What the inspection itself took. Its values are also attributes of the report: `threads`, `rows_read`,
        `checked` and `seconds`.
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
    effort: Effort

    @property
    def threads(self) -> int:
        """The number of threads with which the methods were timed."""
        return self.effort.threads

    @property
    def rows_read(self) -> int:
        """The number of rows read."""
        return self.effort.rows_read

    @property
    def checked(self) -> bool:
        """Whether all of A was checked for NaN and infinity, or only the rows that were read."""
        return self.effort.checked

    @property
    def seconds(self) -> float:
        """The duration of the inspection, without compiling or loading the kernels."""
        return self.effort.seconds

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that can be stored as JSON."""
        values = asdict(self)
        values.update(values.pop("effort"))
        return values

    def __str__(self) -> str:
        from rowsolve.inspection.words import in_words

        return in_words(self)
