"""Judge solutions of `rowsolve.solve` by comparison with LAPACK in extended precision.

The reference is ``x0 + lstsq(A, b - A x0)``, with the rank of numpy's rule, refined with residuals in extended
precision, so that it is accurate to float64 unless A is too ill-conditioned. If the rank is not well determined (no gap
in the singular values at the threshold, or a rank that depends on the units of the columns), residuals are compared
instead.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy import optimize, sparse
from threadpoolctl import ThreadpoolController

import rowsolve

EPS = float(np.finfo(float).eps)
LONG = np.longdouble
EPS_LONG = float(np.finfo(LONG).eps)
TIMES_RTOL = 5.0  # times rtol: the error that CONVERGED may have
GAP = 10.0  # times the threshold of the rank: singular values above this are clearly not zero
RANGE = 1e-150  # the norms of rows, b and x that are supported: between this and its inverse
SHORT = 1000.0  # times the error that the data allow, above which PRECISION is not justified
ALLOWED_SHORT = 1e-6  # times norm(b)**2: the excess cost that a status other than CONVERGED may have
BLAS = ThreadpoolController()
FAIR = (1 / 3, 30.0)  # range of the estimate divided by the error


@dataclass
class Reference:
    """The reference solution.

    Attributes
    ----------
    x : ndarray of shape (p, k)
    unit : ndarray of shape (k,)
        The norms to which errors are relative: those of x, but at least the rounding errors of x0 and b.
    residual, norm_b : ndarray of shape (k,)
    largest : float
        The largest singular value of A.
    uncertain : ndarray of shape (k,)
        A bound on the error of x, relative to `unit`, from the last refinement step and the error of the null space.
    lapack : ndarray of shape (k,)
        A bound on the error of LAPACK's x: ``eps * (cond + cond**2 * residual / (norm(A) * norm(x)))``.
    determined : bool
        Whether the rank is well determined; otherwise only residuals can be compared.
    eps : float
        The precision of the data.
    """

    x: np.ndarray
    unit: np.ndarray
    residual: np.ndarray
    norm_b: np.ndarray
    largest: float
    rank: int
    condition: float
    uncertain: np.ndarray
    lapack: np.ndarray
    determined: bool
    eps: float


@dataclass
class Verdict:
    """The result of one comparison. `failures` is empty if the solution is correct; `notes` are not failures."""

    kind: str
    index: int
    what: str
    status: str = ""
    method: str = ""
    error: float = float("nan")
    estimate: float = float("nan")
    ratio: float = float("nan")
    uncertain: float = float("nan")
    condition: float = float("nan")
    rank: int = -1
    determined: bool = True
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


def dense_of(A: Any) -> np.ndarray:
    """Return A as a float64 array."""
    return np.asarray(A.toarray() if sparse.issparse(A) else A, dtype=float)


def _power_of_two(size: float) -> float:
    return float(2.0 ** np.round(np.log2(size))) if 0 < size < np.inf else 1.0


def _rank(s: np.ndarray, shape: tuple[int, int], eps: float = EPS) -> int:
    return int((s > eps * max(shape) * s[0]).sum()) if s.size and s[0] > 0 else 0


def _is_determined(A: np.ndarray, s: np.ndarray, rank: int, eps: float) -> bool:
    """Whether other rules find the same rank: other thresholds, the precision of the data, and other units."""
    if rank == 0:
        return True
    cut = EPS * max(A.shape) * s[0]
    sizes = np.linalg.norm(A, axis=0)
    scaled = np.linalg.svd(A[:, sizes > 0] / sizes[sizes > 0], compute_uv=False)
    clear = s[rank - 1] > GAP * cut and (rank == s.size or s[rank] < cut / 3)
    in_any_units = _rank(scaled, A.shape) == rank and scaled[rank - 1] > GAP * EPS * max(A.shape) * scaled[0]
    return bool(clear and in_any_units and (eps == EPS or _rank(s / 3, A.shape, eps) == rank))


def _refine(A, top, bottom, U, s, Vt, wanted, steps=10):
    """Solve ``r + A y = top, A.T r = bottom`` by steps with residuals in extended precision, after Björck.

    With ``bottom = 0``, y is the least-squares solution of ``A y = top``; with ``top = 0``, r is the minimum-norm
    solution of ``A.T r = bottom``. Return `wanted` ("r" or "y") and its last relative change for each column.
    """
    A_long, size = A.astype(LONG), s[:, None]
    found = {"r": np.zeros(top.shape, LONG), "y": np.zeros(bottom.shape, LONG)}
    change = np.full(top.shape[1], np.inf)
    for step in range(steps):
        f = (top - found["r"] - A_long @ found["y"]).astype(float)
        g = (bottom - A_long.T @ found["r"]).astype(float)
        along, inside = U.T @ f, (Vt @ g) / size
        more = {"r": f - U @ (along - inside), "y": Vt.T @ ((along - inside) / size)}
        now = np.linalg.norm(more[wanted], axis=0)
        now /= np.maximum(np.linalg.norm((found[wanted] + more[wanted]).astype(float), axis=0), 1e-300)
        if step > 2 and not (now < change / 2).any():
            break
        found = {name: found[name] + more[name] for name in found}
        change = np.minimum(now, change)
    return found[wanted], change


def _least(A, c, U, s, Vt):
    """Return the minimum-norm least-squares solution of ``A d = c``, the last change, and a bound on its error.

    The bound is for the rounding of the factors: the null space is computed in float64 only, unless the rows are
    linearly independent.
    """
    condition, none = s[0] / s[-1], np.zeros((A.shape[1], c.shape[1]))
    if s.size == A.shape[0] < A.shape[1]:
        return *_refine(A.T, none, c, Vt.T, s, U.T, "r"), EPS_LONG * condition
    doubt = EPS_LONG * condition if s.size == A.shape[1] else 10 * EPS * condition
    return *_refine(A, c, none, U, s, Vt, "y"), doubt


@BLAS.wrap(limits=1)  # for small matrices more threads are not faster, and much slower on a busy machine
def reference(A: np.ndarray, b: np.ndarray, x0: np.ndarray | None, damp: float, eps: float) -> Reference:
    """Solve by LAPACK, scaled so that nothing overflows or underflows; `b` and `x0` have k columns."""
    unit_A, unit_b = _power_of_two(np.abs(A).max(initial=0.0)), _power_of_two(np.abs(b).max(initial=0.0))
    A, b = A / unit_A, b / unit_b
    if damp:
        A = np.vstack([A, damp / unit_A * np.eye(A.shape[1])])
        b = np.vstack([b, np.zeros((A.shape[1], b.shape[1]))])
    start = np.zeros((A.shape[1], b.shape[1])) if x0 is None else x0 * unit_A / unit_b
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    rank = _rank(s, A.shape)
    determined = _is_determined(A, s, rank, eps)
    A_long = A.astype(LONG)
    c = b.astype(LONG) - A_long @ start.astype(LONG)
    d, change, doubt = np.zeros(start.shape, LONG), np.zeros(b.shape[1]), 0.0
    if rank:
        d, change, doubt = _least(A, c, U[:, :rank], s[:rank], Vt[:rank])
    x = start + d
    left = np.linalg.norm((b - A_long @ x).astype(float), axis=0)
    norm_d, norm_b = np.linalg.norm(d.astype(float), axis=0), np.linalg.norm(b, axis=0)
    # If x0 is huge, or b is huge and orthogonal to A, a tiny x cannot be distinguished from 0.
    least = eps * np.maximum(np.linalg.norm(start, axis=0), norm_b / (s[0] if rank else 1.0))
    unit = np.maximum(np.linalg.norm(x.astype(float), axis=0), least)
    unit = np.where(unit > 0, unit, 1.0)
    condition = s[0] / s[rank - 1] if rank else 1.0
    uncertain = (change + doubt + EPS) * norm_d / unit + EPS
    lapack = EPS * (condition + condition**2 * left / (s[0] * unit if rank else np.inf))
    back = LONG(unit_b) / LONG(unit_A)
    return Reference(
        (x * back).astype(float), (unit * back).astype(float), left * unit_b, norm_b * unit_b, float(s[0]) * unit_A,
        rank, float(condition), uncertain, lapack, determined, eps,
    )  # fmt: skip


def _columns(v: Any) -> np.ndarray:
    v = np.asarray(v, dtype=float)
    return v[:, None] if v.ndim == 1 else v


def _scaled_norm(v: np.ndarray) -> np.ndarray:
    """Return the norms of columns whose squares may overflow or underflow."""
    size = np.abs(v).max(axis=0, initial=0.0)
    size = np.where((size > 0) & np.isfinite(size), size, 1.0)
    return size * np.linalg.norm(v / size, axis=0)


def in_range(A: np.ndarray, b: np.ndarray, x: np.ndarray) -> bool:
    """Whether the norms of the rows, b and x are in the supported range."""
    sizes = np.concatenate([_scaled_norm(A.T), _scaled_norm(b), _scaled_norm(x)])
    sizes = sizes[sizes > 0]
    return bool((sizes > RANGE).all() and (sizes < 1 / RANGE).all())


def _solve(verdict: Verdict, A: Any, b: Any, options: dict[str, Any]) -> Any:
    """Solve; record the time, warnings and errors."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            solution = rowsolve.solve(A, b, **options)
        except Exception as error:
            solution = None
            verdict.failures.append(f"{type(error).__name__}: {error}")
    verdict.seconds = time.perf_counter() - started
    verdict.failures += sorted({f"{one.category.__name__}: {one.message}" for one in caught})
    if solution is not None:
        verdict.status, verdict.method = solution.status.name, solution.method
        verdict.estimate = float(solution.error_estimate)
        verdict.seconds -= solution.compile_seconds
        if not np.isfinite(solution.x).all():
            verdict.failures.append("NaN in x")
    return solution


def judge(A: Any, b: np.ndarray, options: dict[str, Any], *, kind="", index=0, what="", wild=None) -> Verdict:
    """Solve, and compare x with the reference."""
    verdict = Verdict(kind, index, what)
    solution = _solve(verdict, A, b, options)
    full, sides = dense_of(A), _columns(b)
    x0 = options.get("x0")
    eps = max(EPS, float(np.finfo(A.dtype).eps) if A.dtype.kind == "f" else EPS)
    best = reference(full, sides, None if x0 is None else _columns(x0), options.get("damp", 0.0), eps)
    verdict.condition, verdict.rank, verdict.determined = best.condition, best.rank, best.determined
    if solution is None:
        _excuse(verdict, full, sides, best.x)
        return verdict
    if "NaN in x" in verdict.failures:
        return verdict
    if wild is not None and solution.rows_off.size:
        best = _without(full, sides, x0, solution.rows_off, wild, eps) or best
    _compare(verdict, solution, full, sides, best, options)
    return verdict


def _without(A, b, x0, off, wild, eps):
    """Return the reference without the rows left out, if all of these are outliers."""
    if not wild[off].all():
        return None
    keep = np.ones(A.shape[0], dtype=bool)
    keep[off] = False
    return reference(A[keep], b[keep], None if x0 is None else _columns(x0), 0.0, eps)


def _compare(verdict: Verdict, solution: Any, A: np.ndarray, b: np.ndarray, best: Reference, options: dict) -> None:
    x, rtol = _columns(solution.x), options["rtol"]
    errors = _scaled_norm(x - best.x) / best.unit
    worst = int(np.argmax(errors))
    verdict.error, verdict.uncertain = float(errors[worst]), float(best.uncertain[worst])
    converged = verdict.status == "CONVERGED"
    left_out = f", {solution.rows_off.size} rows left out" if solution.method == "quantile" else ""
    if converged and best.determined and (errors > TIMES_RTOL * rtol + 3 * best.uncertain).any():
        verdict.failures.append(f"WRONG: error {verdict.error:.1e} at rtol {rtol:.0e}{left_out}")
    if converged and not best.determined:
        _compare_residuals(verdict, A, b, x, best, options, left_out)
    if converged and not verdict.estimate <= rtol * (1 + 1e-6) and options.get("x0") is None:
        verdict.failures.append(f"CONVERGED with an estimate of {verdict.estimate:.1e} at rtol {rtol:.0e}")
    data = best.lapack * best.eps / EPS
    if verdict.status == "PRECISION" and best.determined and (errors > SHORT * data + TIMES_RTOL * rtol).any():
        verdict.notes.append(f"SHORT: error {verdict.error:.1e}, though the data allow {data[worst]:.1e}")
    if not converged and not np.isfinite(verdict.estimate):
        verdict.notes.append(f"estimate {verdict.estimate}, error {verdict.error:.1e}")
    _rate_estimate(verdict, solution, errors, best)


def _compare_residuals(verdict, A, b, x, best, options, left_out) -> None:
    """Fail an x whose residual is larger than that of the reference."""
    damp, unit = options.get("damp", 0.0), _power_of_two(float(best.norm_b.max(initial=0.0)))
    rows = A.astype(LONG) @ x - b
    left = np.hypot(_scaled_norm((rows / unit).astype(float)), _scaled_norm(damp / unit * x)) * unit
    allowed = np.sqrt((best.residual / unit) ** 2 + (TIMES_RTOL * options["rtol"] * best.norm_b / unit) ** 2) * unit
    allowed += 100 * EPS * (best.largest * _scaled_norm(best.x) + best.norm_b)
    if (left > allowed).any():
        worst = int(np.argmax(left - allowed))
        verdict.failures.append(
            f"WRONG: residual {left[worst]:.2e}, reference {best.residual[worst]:.2e}, norm(b) {best.norm_b[worst]:.1e}"
            f" at rtol {options['rtol']:.0e}{left_out}"
        )


def _rate_estimate(verdict, solution, errors, best) -> None:
    """Compare the estimate with the true error where this is above rounding; keep the column with the worst ratio."""
    estimates = np.broadcast_to(np.asarray(solution.error_estimates, dtype=float), errors.shape)
    known = best.determined & (errors > 100 * best.uncertain) & (errors > 1e-14) & np.isfinite(errors)
    known &= np.isfinite(estimates) & (best.unit <= 2 * _scaled_norm(best.x))
    if known.any():
        ratios = estimates[known] / errors[known]
        verdict.ratio = float(ratios[np.argmax(np.abs(np.log(np.maximum(ratios, 1e-300))))])
        if verdict.ratio < FAIR[0]:
            verdict.notes.append(f"estimate {verdict.ratio:.1e} of the error, {verdict.error:.1e}")


def judge_bounded(A: Any, b: np.ndarray, options: dict[str, Any], *, kind="", index=0, what="") -> Verdict:
    """Solve within bounds, and compare the cost with that of scipy."""
    verdict = Verdict(kind, index, what)
    solution, full = _solve(verdict, A, b, options), dense_of(A)
    best = reference(full, b[:, None], None, 0.0, EPS)
    verdict.condition, verdict.rank, verdict.determined = best.condition, best.rank, best.determined
    if solution is None:
        _excuse(verdict, full, b[:, None], best.x)
    if solution is None or verdict.failures:
        return verdict
    low, high = (np.broadcast_to(np.asarray(one, dtype=float), full.shape[1]) for one in options["bounds"])
    if (solution.x < low).any() or (solution.x > high).any():
        verdict.failures.append("x is outside the bounds")
    _compare_costs(verdict, solution, full, b, low, high, options["rtol"])
    return verdict


def _compare_costs(verdict, solution, A, b, low, high, rtol) -> None:
    """Fail an x with a larger cost than that of scipy; without CONVERGED or a well-determined rank, only note it."""
    theirs, who = scipy_within(A, b, low, high)
    ours, size = cost(A, b, solution.x), float(b @ b)
    verdict.error = (ours - theirs) / (size or 1.0)
    rounding = (100 * EPS * np.linalg.norm(A) * np.linalg.norm(solution.x)) ** 2
    words = f"cost {ours:.6e}, {who} {theirs:.6e}, norm(b)**2 {size:.1e} at rtol {rtol:.0e}"
    if verdict.status != "CONVERGED":
        if ours > theirs + ALLOWED_SHORT * max(size, theirs):
            verdict.notes.append(f"SHORT: {words}")
    elif not ours <= theirs * (1 + 1e-10) + (1e-14 + (TIMES_RTOL * rtol) ** 2) * size + rounding:
        where = verdict.failures if verdict.determined else verdict.notes
        where.append(f"WRONG: {words}")


def _excuse(verdict: Verdict, A: np.ndarray, b: np.ndarray, x: np.ndarray) -> None:
    """Accept the documented exception for norms out of the supported range."""
    if not in_range(A, b, x) and "rescale" in verdict.failures[0]:
        verdict.status, verdict.failures = "out of range", []


def cost(A: np.ndarray, b: np.ndarray, x: np.ndarray) -> float:
    """Return ``norm(A x - b)**2``, with a residual in extended precision."""
    r = A.astype(LONG) @ x.astype(LONG) - b
    return float(r @ r)


@BLAS.wrap(limits=1)
def scipy_within(A: np.ndarray, b: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[float, str]:
    """Return the lowest cost that scipy finds within the bounds, and the function; fixed variables are eliminated.

    Warnings of scipy are ignored.
    """
    free, found = low < high, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not low.any() and np.isinf(high).all():
            with contextlib.suppress(RuntimeError):  # too many iterations
                return cost(A, b, optimize.nnls(A, b)[0]), "nnls"
        for method in ("bvls", "trf"):
            x = low.copy()
            with contextlib.suppress(ValueError, np.linalg.LinAlgError, IndexError):  # bvls fails on some
                x[free] = _lsq_linear(A[:, free], b - A[:, ~free] @ low[~free], low[free], high[free], method)
                found.append((cost(A, b, x), f"lsq_linear {method}"))
    return min(found, default=(np.inf, "none"))


def _lsq_linear(A, b, low, high, method):
    if not A.shape[1]:
        return low
    found = optimize.lsq_linear(A, b, (low, high), method=method, tol=1e-14, max_iter=2000)
    if not found.success:  # trf may diverge along a direction in the numerical null space
        raise ValueError(found.message)
    return np.clip(found.x, low, high)
