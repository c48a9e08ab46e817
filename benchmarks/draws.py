"""Random small systems of many kinds.

`draw(seed, index)` returns one of them, which depends on nothing else. The index determines the kind of A (modulo their
number); size, b, storage, tolerance and x0 are drawn. `draw_bounded` does the same with bounds on x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from scipy.interpolate import BSpline

Rng = np.random.Generator
Make = Callable[[Rng, int, int], Any]
SIZES: dict[str, str] = {}  # the shapes of each kind
KINDS: dict[str, Make] = {}


@dataclass
class Draw:
    """A system, and how `solve` is called on it.

    Attributes
    ----------
    wild : ndarray of bool or None
        The rows whose b was replaced by outliers, if the other rows are consistent: leaving them out is correct.
    options : dict
        Options of `rowsolve.solve`.
    """

    kind: str
    side: str
    A: Any
    b: np.ndarray
    wild: np.ndarray | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        n, p = self.A.shape
        store = "csr" if sparse.issparse(self.A) else "f" if self.A.flags.f_contiguous and min(n, p) > 1 else "c"
        sides = f" x {self.b.shape[1]} sides" if self.b.ndim > 1 else ""
        names = [name for name in self.options if name not in ("rtol", "rng")]
        words = f"{n} x {p} {self.A.dtype} {store}, b {self.side}{sides}, rtol {self.options['rtol']:.1g}"
        return " ".join([words, *names])


def kind(name: str, size: str = "any") -> Callable[[Make], Make]:
    """Return a decorator that registers a kind of A; `size` determines its shapes."""

    def register(make: Make) -> Make:
        KINDS[name], SIZES[name] = make, size
        return make

    return register


def _smooth(rng: Rng, n: int) -> np.ndarray:
    return np.sort(rng.random(n)) if rng.random() < 0.5 else np.linspace(0, 1, n)


@kind("gaussian")
def _gaussian(rng, n, p):
    return rng.standard_normal((n, p))


@kind("wide", "wide")
def _wide(rng, n, p):
    return rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-1, 1, p)


@kind("square", "square")
def _square(rng, n, p):
    return rng.standard_normal((n, p)) + rng.choice([0, p]) * np.eye(n, p)


@kind("barely-tall", "barely")
def _barely_tall(rng, n, p):
    return rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-1, 1, p)


@kind("one-row", "row")
def _one_row(rng, n, p):
    return rng.standard_normal((n, p))


@kind("one-column", "column")
def _one_column(rng, n, p):
    return rng.choice([rng.standard_normal((n, p)), np.ones((n, p)), rng.integers(0, 2, (n, p)).astype(float)])


@kind("ill-conditioned")
def _ill_conditioned(rng, n, p):
    r = min(n, p)
    U, V = np.linalg.qr(rng.standard_normal((n, r)))[0], np.linalg.qr(rng.standard_normal((p, r)))[0]
    return (U * np.geomspace(1, 10.0 ** rng.uniform(-12, -1), r)) @ V.T


@kind("cauchy")
def _cauchy(rng, n, p):
    return 1 / (5 * rng.random((n, 1)) + np.linspace(0.3, 3, p))


@kind("fourier")
def _fourier(rng, n, p):
    return np.cos(np.pi * _smooth(rng, n)[:, None] * np.arange(p) + rng.choice([0.0, 0.3, 1.0]))


@kind("vandermonde")
def _vandermonde(rng, n, p):
    return np.vander(rng.choice([1.0, 2.0, 10.0]) * _smooth(rng, n) - rng.choice([0.0, 0.5]), min(p, 15))


@kind("year-powers")
def _year_powers(rng, n, p):
    years = 1900.0 + np.arange(n) % 125
    return years[:, None] ** np.arange(rng.integers(1, 7), -1, -1)


@kind("hilbert")
def _hilbert(rng, n, p):
    return 1.0 / (1.0 + np.arange(n)[:, None] + np.arange(p))


@kind("duplicate-columns")
def _duplicate_columns(rng, n, p):
    A = rng.standard_normal((n, p))
    to = rng.choice(p, rng.integers(1, p + 1), replace=False)
    A[:, to] = A[:, rng.integers(0, p, to.size)] * rng.choice([1.0, -1.0, 2.0, 0.3])
    return A


@kind("zero-columns")
def _zero_columns(rng, n, p):
    return rng.standard_normal((n, p)) * (rng.random(p) < 0.7)


@kind("zero-rows")
def _zero_rows(rng, n, p):
    return rng.standard_normal((n, p)) * (rng.random((n, 1)) < rng.choice([0.2, 0.8]))


@kind("duplicate-rows")
def _duplicate_rows(rng, n, p):
    return rng.standard_normal((n, p))[rng.integers(0, rng.integers(1, n + 1), n)]


def _one_hot_block(rng, n, levels):
    some_rare = np.minimum(rng.geometric(0.3, n), levels) - 1
    return np.eye(levels)[some_rare if rng.random() < 0.5 else rng.integers(0, levels, n)]


@kind("one-hot")
def _one_hot(rng, n, p):
    return _one_hot_block(rng, n, p)


@kind("dummy-trap")
def _dummy_trap(rng, n, p):
    levels = max(2, p // 2)
    blocks = [np.ones((n, 1)), _one_hot_block(rng, n, levels), _one_hot_block(rng, n, levels)]
    return np.hstack([*blocks, rng.standard_normal((n, 2)) * rng.choice([1.0, 1e3])])


@kind("integers")
def _integers(rng, n, p):
    return rng.integers(-5, 6, (n, p)).astype(float)


@kind("binary")
def _binary(rng, n, p):
    return (rng.random((n, p)) < rng.choice([0.05, 0.5])).astype(float)


@kind("counts")
def _counts(rng, n, p):
    return rng.poisson(rng.choice([0.3, 3.0, 1000.0]), (n, p)).astype(float)


@kind("scale-1e100")
def _scale_100(rng, n, p):
    return rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-100, 100)


@kind("scale-1e145")
def _scale_145(rng, n, p):
    return rng.standard_normal((n, p)) * 10.0 ** (rng.choice([-1, 1]) * rng.uniform(120, 145))


@kind("units")
def _units(rng, n, p):
    return rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-5, 5, p)


@kind("toeplitz")
def _toeplitz(rng, n, p):
    lag = np.abs(np.arange(n)[:, None] - np.arange(p))
    return rng.choice([np.exp(-((lag / 3.0) ** 2)), 0.9**lag, (lag <= 2) * 1.0])


@kind("lognormal-rows")
def _lognormal_rows(rng, n, p):
    return rng.standard_normal((n, p)) * rng.lognormal(0, rng.choice([1.0, 4.0]), (n, 1))


@kind("heavy-entries")
def _heavy_entries(rng, n, p):
    return rng.standard_cauchy((n, p))


@kind("low-rank-gap")
def _low_rank_gap(rng, n, p):
    r = int(rng.integers(1, min(n, p) + 1))
    A = rng.standard_normal((n, r)) @ rng.standard_normal((r, p))
    return A + rng.choice([0.0, 10.0 ** rng.uniform(-17, -4)]) * rng.standard_normal((n, p))


@kind("low-rank-no-gap")
def _low_rank_no_gap(rng, n, p):
    r = min(n, p)
    U, V = np.linalg.qr(rng.standard_normal((n, r)))[0], np.linalg.qr(rng.standard_normal((p, r)))[0]
    return (U * np.geomspace(1, 10.0 ** rng.uniform(-22, -13), r)) @ V.T


@kind("lags")
def _lags(rng, n, p):
    series = np.cumsum(rng.standard_normal(n + p)) if rng.random() < 0.5 else np.sin(0.1 * np.arange(n + p))
    return np.stack([series[j : j + n] for j in range(p)], axis=1)


@kind("splines")
def _splines(rng, n, p):
    degree = 3
    inner = np.linspace(0, 1, max(p - degree + 1, 2))
    knots = np.r_[[0.0] * degree, inner, [1.0] * degree]
    B = BSpline.design_matrix(_smooth(rng, n) * (1 - 1e-12), knots, degree)
    return B.tocsr() if rng.random() < 0.3 else B.toarray()


@kind("clusters")
def _clusters(rng, n, p):
    centres = rng.standard_normal((4, p))[rng.integers(0, 4, n)]
    return centres + 10.0 ** rng.uniform(-8, 0) * rng.standard_normal((n, p))


@kind("far-from-zero")
def _far_from_zero(rng, n, p):
    return np.hstack([np.ones((n, 1)), 10.0 ** rng.uniform(1, 8) + rng.standard_normal((n, p))])


@kind("interactions")
def _interactions(rng, n, p):
    X = rng.standard_normal((n, max(1, int(np.sqrt(p)))))
    return np.hstack([np.ones((n, 1)), X, *[X * X[:, [j]] for j in range(X.shape[1])]])


@kind("diagonal", "square")
def _diagonal(rng, n, p):
    return np.diag(10.0 ** rng.uniform(-6, 6, n))[rng.permutation(n)]


@kind("sums")
def _sums(rng, n, p):
    return (np.arange(n)[:, None] * p >= np.arange(p) * n).astype(float)


@kind("sparse-random")
def _sparse_random(rng, n, p):
    A = sparse.random_array((n, p), density=min(1.0, rng.uniform(0.5, 5) / p), rng=rng, format="csr")
    A.data = rng.standard_normal(A.nnz)
    return A


@kind("sparse-one-hot")
def _sparse_one_hot(rng, n, p):
    blocks = [_one_hot_block(rng, n, max(1, p // 2)) for _ in range(2)]
    return sparse.csr_array(np.hstack([np.ones((n, rng.integers(0, 2))), *blocks]))


@kind("pairs")
def _pairs(rng, n, p):
    """Build one row per game of two players, or per edge of a graph."""
    p = max(p, 2)
    one = rng.integers(0, p, n)
    other = (one + rng.integers(1, p, n)) % p
    rows, sign = np.arange(n), rng.choice([-1.0, 1.0])
    return sparse.csr_array((np.r_[np.ones(n), np.full(n, sign)], (np.r_[rows, rows], np.r_[one, other])), shape=(n, p))


@kind("rare-columns", "many")
def _rare_columns(rng, n, p):
    """Build a matrix in which every second column is zero except in a few rows."""
    A = rng.standard_normal((n, p))
    for j in range(0, p, 2):
        A[:, j] *= rng.random(n) < 10.0 ** rng.uniform(-3.3, -1)
    return np.hstack([np.ones((n, 1)), A])


@kind("long", "many")
def _long(rng, n, p):
    return np.hstack([np.ones((n, 1)), rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-1, 3, p)])


@kind("wide-units", "wide")
def _wide_units(rng, n, p):
    return rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-1, 10, p)


@kind("wide-table", "wide")
def _wide_table(rng, n, p):
    """Build a small table with more levels than rows: an intercept, some large numbers, and dummy variables."""
    numbers = rng.standard_normal((n, 3)) * 10.0 ** rng.uniform(0, 10, 3)
    return np.hstack([np.ones((n, 1)), numbers, np.eye(n), _one_hot_block(rng, n, p)])


@kind("grid")
def _grid(rng, n, p):
    """Build the Laplacian of a square grid, or bilinear interpolation at random points in it."""
    side = max(2, int(np.sqrt(p)))
    if rng.random() < 0.5:
        line = sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(side, side))
        return sparse.csr_array(sparse.kron(line, sparse.eye_array(side)) + sparse.kron(sparse.eye_array(side), line))
    at = rng.random((n, 2)) * (side - 1)
    corner, part = np.floor(at).astype(int), at % 1
    entries, columns = [], []
    for i in (0, 1):
        for j in (0, 1):
            entries.append(np.abs(1 - i - part[:, 0]) * np.abs(1 - j - part[:, 1]))
            columns.append((corner[:, 0] + i) * side + corner[:, 1] + j)
    rows = np.tile(np.arange(n), 4)
    return sparse.csr_array((np.concatenate(entries), (rows, np.concatenate(columns))), shape=(n, side * side))


def _shape(rng: Rng, size: str) -> tuple[int, int]:
    """Draw a shape: in most cases up to 600 x 60, sometimes up to 5,000 x 200."""
    large = rng.random() < 0.05
    p = int(np.exp(rng.uniform(0, np.log(201 if large else 61))))
    tall = int(np.exp(rng.uniform(np.log(p + 1), np.log(5000 if large else 601 + p))))
    if size == "any":
        size = str(rng.choice(["wide", "square", "barely", "tall"], p=[0.1, 0.07, 0.13, 0.7]))
    shapes = {
        "wide": (int(rng.integers(1, p + 1)), p + 1), "square": (p, p), "barely": (p + int(rng.integers(1, 4)), p),
        "tall": (tall, p), "row": (1, p), "column": (tall, 1), "many": (int(rng.integers(600, 5000)), max(1, p // 3)),
    }  # fmt: skip
    return shapes[size]


def _unit(s: np.ndarray) -> np.ndarray:
    """Return `s` scaled to a standard deviation of 1, or to entries of size 1 if it is constant."""
    size = np.abs(s).max(initial=0.0)
    s = s / size if size > 0 else s
    return s / (np.std(s) or 1.0)


SIDES: dict[str, Callable[[Rng, np.ndarray], np.ndarray]] = {
    "noisy": lambda rng, s: s + 10.0 ** rng.uniform(-8, 0.5) * rng.standard_normal(s.shape),
    "noise": lambda rng, s: rng.standard_normal(s.shape),
    "zero-inflated": lambda rng, s: s * (rng.random(s.shape) < 0.3),
    "censored": lambda rng, s: np.maximum(s, np.quantile(s, rng.choice([0.3, 0.8]))),
    "rounded": lambda rng, s: np.round(s, int(rng.integers(0, 4))),
    "binary": lambda rng, s: (s + rng.standard_normal(s.shape) > rng.choice([0.0, 1.5])).astype(float),
    "count": lambda rng, s: rng.poisson(np.exp(np.clip(s - rng.choice([0, 3]), -20, 5))).astype(float),
    "rare": lambda rng, s: (rng.random(s.shape) < 10.0 ** rng.uniform(-3, -1)) * rng.lognormal(0, 1, s.shape),
    "rare-ones": lambda rng, s: (rng.random(s.shape) < 10.0 ** rng.uniform(-3, -1)).astype(float),
    "t1.5": lambda rng, s: s + 10.0 ** rng.uniform(-3, 0) * rng.standard_t(1.5, s.shape),
    "cauchy": lambda rng, s: s + 10.0 ** rng.uniform(-3, 0) * rng.standard_cauchy(s.shape),
    "zero": lambda rng, s: 0.0 * s,
}  # fmt: skip


_SHARES = np.array([4.0, 1.0, 4.0] + [1.0] * (len(SIDES) - 1))
_SHARES /= _SHARES.sum()


def _side(rng: Rng, A: Any, k: int) -> tuple[str, np.ndarray, np.ndarray | None]:
    """Draw b with k columns."""
    n, p = A.shape
    x = rng.standard_normal((p, k))
    x = rng.choice([x, np.ones((p, k)), np.round(3 * x), x * (rng.random((p, k)) < 0.3)])
    signal = A @ x
    name = str(rng.choice(["consistent", "wild", *SIDES], p=_SHARES))
    if name == "consistent":
        return name, signal, None
    if name == "wild":
        wild = rng.random(n) < 0.04
        far = 10.0 ** rng.uniform(0, 4) * np.abs(signal).max(initial=0.0) * rng.choice([-1.0, 1.0], (n, k))
        return name, np.where(wild[:, None], far, signal), wild
    size = 10.0 ** rng.uniform(-3, 3) * (np.abs(signal).max(initial=0.0) or 1.0)
    return name, np.stack([SIDES[name](rng, _unit(s)) for s in signal.T], axis=1) * size, None


def _stored(rng: Rng, A: Any) -> Any:
    """Return A in a random storage format."""
    if sparse.issparse(A):
        return A
    largest = np.abs(A).max(initial=0.0)
    how = rng.choice(["c", "fortran", "float32", "csr"], p=[0.7, 0.1, 0.1, 0.1])
    if how == "float32" and 1e-10 < largest < 1e10:
        return A.astype(np.float32)
    if how == "csr":
        return sparse.csr_array(A)
    return np.asfortranarray(A) if how == "fortran" else np.ascontiguousarray(A)


def draw(seed: int, index: int) -> Draw:
    """Return the system of this seed and index."""
    rng = np.random.default_rng([seed, index])
    name = list(KINDS)[index % len(KINDS)]
    A = _stored(rng, KINDS[name](rng, *_shape(rng, SIZES[name])))
    k = int(rng.integers(2, 5)) if rng.random() < 0.1 else 1
    side, b, wild = _side(rng, A, k)
    if k == 1 and (rng.random() < 0.9):
        b = b[:, 0]
    if name == "scale-1e100":  # x then lies between 1e-100 and 1e100
        b = b * 10.0 ** np.clip(rng.uniform(-60, 60), -100, 100)
    options: dict[str, Any] = {"rtol": 10.0 ** -rng.integers(3, 11), "rng": int(rng.integers(1000))}
    if rng.random() < 0.15:
        options["x0"] = _start(rng, A, b)
    if rng.random() < 0.1:
        options["damp"] = 10.0 ** rng.uniform(-4, 1) * float(abs(A).max() or 1.0)
    if rng.random() < 0.2:
        options["threads"] = 1
    if rng.random() < 0.1:
        options["check"] = "full"
    if k == 1 and "damp" not in options and side != "censored" and rng.random() < (0.1 if wild is None else 0.5):
        options["outliers"] = "drop"  # not for censored b, where the other rows may be consistent
    return Draw(name, side, A, b, wild, options)


def _start(rng: Rng, A: Any, b: np.ndarray) -> np.ndarray:
    """Draw an x0 of about the size of x."""
    size = (np.abs(b).max(initial=0.0) or 1.0) / (abs(A).max() or 1.0)
    return size * 10.0 ** rng.uniform(-2, 2) * rng.standard_normal((A.shape[1], *b.shape[1:]))


BOUNDED_KINDS = (
    "gaussian", "wide", "square", "one-hot", "dummy-trap", "duplicate-columns", "zero-columns", "binary", "counts",
    "low-rank-gap", "sparse-one-hot", "pairs", "one-column", "one-row", "clusters", "units", "splines", "barely-tall",
    "far-from-zero", "integers", "ill-conditioned", "toeplitz",
)  # fmt: skip


def draw_bounded(seed: int, index: int) -> Draw:
    """Return the system with bounds of this seed and index."""
    rng = np.random.default_rng([seed, index, 1])
    name = BOUNDED_KINDS[index % len(BOUNDED_KINDS)]
    A = KINDS[name](rng, *_shape(rng, SIZES[name]))
    if not sparse.issparse(A) and rng.random() < 0.2:
        A = sparse.csr_array(A)
    side, b, _ = _side(rng, A, 1)
    p, size = A.shape[1], (np.abs(b).max(initial=0.0) or 1.0) / (abs(A).max() or 1.0)
    low, high = np.zeros(p), np.full(p, np.inf)
    how = rng.choice(["nonnegative", "box", "fixed", "one-sided", "outside"])
    if how in ("box", "fixed"):
        low, high = -size * rng.random(p), size * rng.random(p)
    if how == "fixed":
        high = np.where(rng.random(p) < 0.3, low, high)
    if how == "one-sided":
        low, high = np.where(rng.random(p) < 0.5, -np.inf, low), np.where(rng.random(p) < 0.3, 0.2 * size, high)
    if how == "outside":
        low, high = np.full(p, 50.0 * size), np.full(p, 60.0 * size)
    bounds: Any = (0, np.inf) if how == "nonnegative" else (low, high)
    options = {"rtol": 10.0 ** -rng.integers(6, 11), "rng": int(rng.integers(1000)), "bounds": bounds}
    return Draw(f"{name}", f"{side}, {how}", A, b[:, 0], None, options)
