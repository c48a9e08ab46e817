"""The systems of `make bench`, each with a name, a seed and a target.

A case is built when it is needed, in its full size or in a quick one with the same properties. The target is for the
ratio of the time of the best peer to that of rowsolve, to a true relative error of 1e-6 (with respect to the
least-squares solution if b is noisy).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rowsolve.experiments.problems import clustered_system, gaussian_system
from rowsolve.sources import load_matrix, load_vector

ANY_CASE = 0.9  # the target of all cases without one of their own
SHARED = Path(__file__).parent.parent.parent / "shared" / "data"
PIECE = 4096  # rows generated at a time

Shape = tuple[int, int]


class System(NamedTuple):
    """A x = b. `x` is the exact solution, or None if the reference is the least-squares solution."""

    A: Any
    b: np.ndarray
    x: np.ndarray | None


@dataclass(frozen=True)
class Case:
    """A system by name.

    Attributes
    ----------
    build : callable
        ``build(shape, rng, folder) -> System``; `folder` is a place for files.
    full, quick : (int, int) or None
        The shapes (for tomography, the side of the image and the number of angles); None if there is no such size.
    target : float
        The ratio to reach.
    target_passes : float or None
        The target for the passes of lsqr divided by those of rowsolve.
    needs : path or None
        A file that must exist.
    outliers : str
        The option `outliers` of `rowsolve.solve`.
    """

    name: str
    family: str
    build: Callable[[Shape, np.random.Generator, Path], System]
    full: Shape | None
    quick: Shape | None
    target: float = ANY_CASE
    target_passes: float | None = None
    needs: Path | None = None
    seed: int = 0
    outliers: str = "keep"

    def why_not(self, *, quick: bool) -> str:
        """Return why the case cannot be built in this size; empty if it can."""
        if self.needs is not None and not self.needs.exists():
            return f"the file {self.needs.name} does not exist"
        return "" if (self.quick if quick else self.full) else f"has no {'quick' if quick else 'full'} size"

    def make(self, folder: Path, *, quick: bool) -> System:
        """Build the system; its files are written to `folder`, which must exist as long as the system."""
        shape = self.quick if quick else self.full
        if shape is None:
            raise ValueError(f"{self.name}: {self.why_not(quick=quick)}")
        return self.build(shape, np.random.default_rng(self.seed), folder)


def gaussian(shape: Shape, rng: np.random.Generator, _: Path, *, noise: float = 0.0) -> System:
    """Entries N(0, 1)."""
    A, b, x = gaussian_system(*shape, rng, noise=noise)
    return System(A, b, None if noise else x)


def clustered(
    shape: Shape, rng: np.random.Generator, _: Path, *, separation: str, spread: float, noise: float = 0.0
) -> System:
    """Four clusters of rows that vary by `spread` (as in the paper), with or without noise in b."""
    if noise:
        A, b, _x, _labels = clustered_system(*shape, 4, separation, "b", noise, rng, spread=spread)
        return System(A, b, None)
    return System(*clustered_system(*shape, 4, separation, "A", spread, rng)[:3])


def decaying(shape: Shape, rng: np.random.Generator, _: Path, *, condition: float, noise: float = 0.0) -> System:
    """Singular values that decay geometrically from 1 to 1 / `condition`."""
    values = condition ** -np.linspace(0.0, 1.0, shape[1])
    return _with_right_side(with_spectrum(shape, values, rng), rng, noise)


def outliers(shape: Shape, rng: np.random.Generator, _: Path, *, n_outliers: int = 50) -> System:
    """50 singular values 100 times as large as the others (a tenth of the columns in the quick size)."""
    values = np.ones(shape[1])
    values[: min(n_outliers, shape[1] // 10)] = 100.0
    return _with_right_side(with_spectrum(shape, values, rng), rng, 0.0)


def with_spectrum(shape: Shape, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return ``G diag(values) V'`` with G Gaussian and V orthogonal, computed in place, a few rows at a time.

    V is the cosine transform with random signs, so nothing costs more than ``n p log(p)``. The singular values of
    G / sqrt(n) lie between ``1 - sqrt(p/n)`` and ``1 + sqrt(p/n)``: those of A are `values` up to these factors.
    """
    from scipy.fft import idct

    A = np.empty(shape)
    signs = rng.choice([-1.0, 1.0], shape[1])
    for start in range(0, shape[0], PIECE):
        piece = A[start : start + PIECE]
        rng.standard_normal(out=piece)
        piece *= values / math.sqrt(shape[0])
        piece[:] = idct(piece, axis=1, norm="ortho", overwrite_x=True)
        piece *= signs
    return A


def _with_right_side(A: Any, rng: np.random.Generator, noise: float) -> System:
    x = rng.standard_normal(A.shape[1])
    b = A @ x
    if noise:
        b += noise * np.std(b) * rng.standard_normal(len(b))
    return System(A, b, None if noise else x)


def corrupted(shape: Shape, rng: np.random.Generator, _: Path, *, share: float = 0.02) -> System:
    """Replace the fraction `share` of the b of a Gaussian system by outliers; the solution is that without them."""
    A, b, x = gaussian_system(*shape, rng)
    wrong = rng.choice(shape[0], round(share * shape[0]), replace=False)
    b[wrong] = 10.0 * np.std(b) * rng.standard_normal(len(wrong))
    return System(A, b, x)


def random_csr(shape: Shape, rng: np.random.Generator, _: Path, *, density: float) -> System:
    """Rows with the same number of Gaussian entries in random columns (two in the same place are added)."""
    from scipy import sparse

    n_rows, n_columns = shape
    per_row = max(1, round(density * n_columns))
    columns = rng.integers(0, n_columns, n_rows * per_row, dtype=np.int32)  # scikit-learn needs 32-bit indices
    starts = np.arange(0, n_rows * per_row + 1, per_row, dtype=np.int32)
    A = sparse.csr_array((rng.standard_normal(n_rows * per_row), columns, starts), shape=shape)
    A.sum_duplicates()
    return _with_right_side(A, rng, 0.0)


def tomography(shape: Shape, _: np.random.Generator, __: Path) -> System:
    """Parallel-beam tomography of two discs in a square image of ``side`` x ``side`` pixels, from ``n_angles`` angles.

    A row is a strip of the detector at one angle. Each pixel is divided between the two strips nearest to the
    projection of its centre, by linear interpolation. Strips without pixels are left out.
    """
    from scipy import sparse

    side, n_angles = shape
    centres = np.arange(side) - (side - 1) / 2.0
    u, v = np.meshgrid(centres, centres, indexing="ij")
    n_strips = math.ceil(math.sqrt(2.0) * side) + 2
    pixels, blocks = np.arange(side * side), []
    for angle in np.linspace(0.0, math.pi, n_angles, endpoint=False):
        place = (math.cos(angle) * u + math.sin(angle) * v).ravel() + (n_strips - 1) / 2.0
        strip = np.floor(place).astype(int)
        part = place - strip
        entries = (np.r_[1.0 - part, part], (np.r_[strip, strip + 1], np.r_[pixels, pixels]))
        blocks.append(sparse.csr_array(entries, shape=(n_strips, side * side)))
    A = sparse.vstack(blocks, format="csr")
    A.eliminate_zeros()
    A = A[np.diff(A.indptr) > 0]
    radius = np.hypot(u, v) / side
    picture = 1.0 * (radius < 0.45) + 1.0 * (np.hypot(u - side / 8.0, v) / side < 0.15)
    x = picture.ravel()
    return System(A, A @ x, x)


def from_file(_: Shape, rng: np.random.Generator, __: Path, *, name: str, rhs: str = "") -> System:
    """Read a matrix from the data folder, with its own right-hand side or a consistent one."""
    A = load_matrix(SHARED / name)
    if not rhs:
        return _with_right_side(A.astype(float), rng, 0.0)
    return System(A, load_vector(SHARED / rhs), None)


def npy_file(shape: Shape, rng: np.random.Generator, folder: Path, *, noise: float = 0.0) -> System:
    """Write a Gaussian system to a .npy file, without holding it in memory."""
    path = folder / "A.npy"
    A = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=shape)
    x = rng.standard_normal(shape[1])
    b = np.empty(shape[0])
    for start in range(0, shape[0], PIECE):
        piece = rng.standard_normal((min(PIECE, shape[0] - start), shape[1]))
        A[start : start + PIECE], b[start : start + PIECE] = piece, piece @ x
    A.flush()
    del A
    if noise:
        b += noise * np.std(b) * rng.standard_normal(len(b))
    return System(np.load(path, mmap_mode="r"), b, None if noise else x)


def _gaussian_cases() -> list[Case]:
    targets = {
        (20_000, 1_000): ANY_CASE, (50_000, 1_000): 12.0, (200_000, 1_000): 30.0,
        (40_000, 4_000): 5.0, (200_000, 200): 40.0, (5_000, 1_000): ANY_CASE,
    }  # fmt: skip
    return [
        Case(f"gaussian-{n}x{p}", "gaussian", gaussian, (n, p), (max(n // 25, 500), max(p // 10, 40)), target)
        for (n, p), target in targets.items()
    ]


def _clustered_cases() -> list[Case]:
    return [
        Case(
            f"clustered-{separation}-{spread:g}", "clustered",
            partial(clustered, separation=separation, spread=spread), (10_000, 1_000), (1_000, 60), 2.5,
        )
        for separation in ("tight", "loose")
        for spread in (0.1, 0.2)
    ]  # fmt: skip


def _spectrum_cases() -> list[Case]:
    full, quick = (50_000, 1_000), (2_000, 60)
    return [
        Case("outliers", "outliers", outliers, full, quick, 2.0),
        *(
            Case(f"decaying-{condition:.0f}", "decaying", partial(decaying, condition=condition), full, quick, 3.0)
            for condition in (1e2, 1e4)
        ),
    ]


def _noisy_cases() -> list[Case]:
    well, ill = 1.3, 1.5  # targets for condition numbers below 100, and from 100 on
    full, quick, paper, quick_paper = (50_000, 1_000), (2_000, 60), (10_000, 1_000), (1_000, 60)
    kinds: list[tuple[str, Callable[..., System], Shape, Shape, float]] = [
        ("gaussian", gaussian, full, quick, well),
        ("clustered-tight", partial(clustered, separation="tight", spread=0.1), paper, quick_paper, ill),
        ("clustered-loose", partial(clustered, separation="loose", spread=0.1), paper, quick_paper, well),
        ("decaying-100", partial(decaying, condition=1e2), full, quick, ill),
        ("decaying-10000", partial(decaying, condition=1e4), full, quick, ill),
    ]
    cases = [
        Case(f"noisy-{name}-{100 * noise:g}%", "noisy", partial(build, noise=noise), *shapes, target)
        for name, build, *shapes, target in kinds
        for noise in (0.01, 0.1)
    ]
    # Here the normal equations break down. With more noise, LAPACK would not find a single digit of x either.
    hard = partial(decaying, condition=1e8, noise=1e-9)
    return [*cases, Case("noisy-decaying-1e8", "noisy", hard, full, quick, ill)]


def _sparse_cases() -> list[Case]:
    shared = [
        ("well1033.mtx.gz", "well1033_rhs1.mtx.gz"),
        ("illc1033.mtx.gz", "illc1033_rhs1.mtx.gz"),
        ("ash219.mtx", ""),
    ]
    shapes = {"well1033": (1033, 320), "illc1033": (1033, 320), "ash219": (219, 85)}
    return [
        Case("sparse-1%", "sparse", partial(random_csr, density=0.01), (200_000, 1_000), (4_000, 200), 1.0),
        Case("sparse-0.1%", "sparse", partial(random_csr, density=0.001), (200_000, 5_000), (10_000, 2_000), 1.0),
        Case("sparse-ct", "sparse", tomography, (128, 180), (16, 24), 1.0),
        *(
            Case(
                f"sparse-{name.split('.')[0]}", "sparse", partial(from_file, name=name, rhs=rhs),
                shapes[name.split(".")[0]], shapes[name.split(".")[0]], 1.0, needs=SHARED / name,
            )
            for name, rhs in shared
        ),
    ]  # fmt: skip


CORPUS: dict[str, Case] = {
    case.name: case
    for case in (
        *_gaussian_cases(),
        *_clustered_cases(),
        *_spectrum_cases(),
        *_noisy_cases(),
        Case("corrupted-2%", "corrupted", corrupted, (50_000, 1_000), (2_000, 60), outliers="drop"),
        *_sparse_cases(),
        Case("file-npy", "file", npy_file, (250_000, 1_000), None, 5.0, target_passes=10.0),
        Case("file-npy-noisy-10%", "file", partial(npy_file, noise=0.1), (250_000, 1_000), None, 1.0),
    )
}
# The time of rowsolve should grow by less than this factor from the first case to the second.
GROWTH = ("gaussian-20000x1000", "gaussian-200000x1000", 1.2)


def chosen(names: list[str]) -> list[Case]:
    """Return the cases of these names or families, in the order of the corpus; all if there are none.

    Raises
    ------
    ValueError
        If a name is neither.
    """
    families = {case.family for case in CORPUS.values()}
    for name in names:
        if name not in CORPUS and name not in families:
            raise ValueError(
                f"unknown case {name!r}: expected a name of `--list` or one of {', '.join(sorted(families))}."
            )
    return [case for case in CORPUS.values() if not names or case.name in names or case.family in names]
