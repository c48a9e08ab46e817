"""The other solvers: numpy, scipy and scikit-learn, each at the loosest setting that reaches the error."""

from __future__ import annotations

import importlib.util
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, lsmr, lsqr, splu

from rowsolve.race.machine import seconds_for_flops

ERROR = 1e-6  # relative error, of each right-hand side
DENSE = 5e7  # entries up to which a sparse matrix is converted to dense
LONGEST = 10.0  # seconds
FAR = 6.0  # times the best time so far, above which a peer is not run if it is expected to take longer
APART = 3.0  # times the best time so far, above which a peer is not timed again
TOLERANCES = [10.0**-k for k in range(4, 15)]
MANY = 10**9  # iterations


def error_of(x: np.ndarray, truth: np.ndarray) -> float:
    """Return the largest relative error of a right-hand side; infinity if x is not finite."""
    x = np.asarray(x, dtype=float).reshape(truth.shape)
    error = np.max(np.linalg.norm(x - truth, axis=0) / np.linalg.norm(truth, axis=0))
    return float(error) if np.isfinite(error) else np.inf


def _full(A: Any) -> np.ndarray:
    return A.toarray() if sparse.issparse(A) else A


def _wide(A: Any) -> Any:
    """Return A in float64: the setting "float64" of peers that would otherwise compute in float32."""
    return A.astype(np.float64)


def _gelsd(A: Any, b: np.ndarray, setting: Any) -> np.ndarray:
    return np.linalg.lstsq(_full(A), b)[0]


def _gelsy(A: Any, b: np.ndarray, setting: Any) -> np.ndarray:
    return linalg.lstsq(_full(A), b, cond=setting, lapack_driver="gelsy")[0]


def _cholesky(A: Any, b: np.ndarray, setting: Any) -> np.ndarray:
    gram = A.T @ A
    return linalg.cho_solve(linalg.cho_factor(_full(gram), overwrite_a=True), A.T @ b)


def _cholesky_dense(A: Any, b: np.ndarray, setting: Any) -> np.ndarray:
    return _cholesky(A.toarray(), b, setting)


def _splu(A: Any, b: np.ndarray, setting: Any) -> np.ndarray:
    return splu((A.T @ A).tocsc()).solve(A.T @ b)


def _splu_symmetric(A: Any, b: np.ndarray, setting: Any) -> np.ndarray:
    options = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    return splu((A.T @ A).tocsc(), **options).solve(A.T @ b)


def _regression(A: Any, b: np.ndarray, setting: Any) -> np.ndarray:
    from sklearn.linear_model import LinearRegression

    return LinearRegression(fit_intercept=False, tol=setting).fit(A, b).coef_.T


def _one_by_one(solve: Callable[[np.ndarray], np.ndarray], b: np.ndarray) -> np.ndarray:
    return solve(b) if b.ndim == 1 else np.stack([solve(side) for side in b.T], axis=1)


def _lsmr(A: Any, b: np.ndarray, setting: Any) -> np.ndarray:
    return _one_by_one(lambda side: lsmr(A, side, atol=setting, btol=setting, conlim=0, maxiter=MANY)[0], b)


def _lsqr(A: Any, b: np.ndarray, setting: Any) -> np.ndarray:
    return _one_by_one(lambda side: lsqr(A, side, atol=setting, btol=setting, conlim=0, iter_lim=MANY)[0], b)


@dataclass(frozen=True)
class Peer:
    """How a peer is run, with which settings, on which matrices, and how many operations it takes (0: unknown).

    `on` is "dense", "sparse", "toarray" (sparse, converted to dense) or "both" (iterative peers use sparse matrices as
    they are, the others convert them to dense).
    """

    solve: Callable[[Any, np.ndarray, Any], np.ndarray]
    settings: tuple[Any, ...] = (None,)
    on: str = "both"
    iterates: bool = False
    operations: Callable[[int, int], float] = lambda n, p: 0.0

    def fits(self, A: Any) -> bool:
        """Whether the peer can be run on A."""
        if not sparse.issparse(A):
            return self.on in ("dense", "both")
        small = A.shape[0] * A.shape[1] <= DENSE
        return (
            self.on == "sparse" or (self.on == "toarray" and small) or (self.on == "both" and (self.iterates or small))
        )

    def expected(self, A: Any) -> float:
        """Return a lower bound of the time, from the number of operations."""
        return seconds_for_flops(self.operations(*A.shape))


def _gram(n: int, p: int) -> float:
    return n * p**2 + p**3 / 3


PEERS = {
    "cholesky": Peer(_cholesky, on="dense", operations=_gram),
    "cholesky of sparse A'A": Peer(_cholesky, on="sparse", operations=lambda n, p: p**3 / 3),
    "splu": Peer(_splu, on="sparse"),
    "splu symmetric": Peer(_splu_symmetric, on="sparse"),
    "cholesky of toarray": Peer(_cholesky_dense, on="toarray", operations=_gram),
    "lsmr": Peer(_lsmr, tuple(TOLERANCES), iterates=True),
    "lsqr": Peer(_lsqr, tuple(TOLERANCES), iterates=True),
    "gelsy": Peer(_gelsy, (None, 1e-10), operations=lambda n, p: 2 * n * p**2),
    "numpy lstsq": Peer(_gelsd, operations=lambda n, p: 2 * n * p**2 + 12 * p**3),
    "LinearRegression": Peer(_regression, (1e-6, 1e-13), on="dense", operations=lambda n, p: 2 * n * p**2 + 12 * p**3),
}


@dataclass
class Found:
    """The loosest setting of a peer that reaches the error, and its time after a first run."""

    name: str
    run: Callable[[], np.ndarray]
    setting: str
    seconds: float


def field(A: Any, b: np.ndarray, truth: np.ndarray) -> tuple[list[Found], dict[str, str]]:
    """Return the peers that could be the fastest, and why the others are excluded."""
    found: list[Found] = []
    out: dict[str, str] = {}
    for name, peer in PEERS.items():
        best = min((one.seconds for one in found), default=np.inf)
        if not peer.fits(A):
            out[name] = "does not support A, or A is too large"
        elif name == "LinearRegression" and not importlib.util.find_spec("sklearn"):
            out[name] = "is not installed"
        elif name == "LinearRegression" and not any(one.name == "numpy lstsq" for one in close(found)):
            out[name] = "runs gelsd after copies of A, and numpy lstsq is excluded or much slower than the best"
        elif peer.expected(A) > min(LONGEST, FAR * best):
            out[name] = f"about {peer.expected(A):.2g} s expected"
        else:
            one = find_setting(name, peer, A, b, truth, limit=min(LONGEST, max(FAR * best, 0.05)))
            found, out = ([*found, one], out) if isinstance(one, Found) else (found, {**out, name: one})
    near = close(found)
    return near, {**out, **{one.name: f"took {one.seconds:.2g} s" for one in found if one not in near}}


def close(found: list[Found]) -> list[Found]:
    """Return the peers that are not much slower than the best."""
    best = min((one.seconds for one in found), default=np.inf)
    return [one for one in found if one.seconds <= max(APART * best, best + 5e-4)]


def find_setting(name: str, peer: Peer, A: Any, b: np.ndarray, truth: np.ndarray, *, limit: float) -> Found | str:
    """Return the setting of a peer that reaches the error, or the reason why it is excluded."""
    if name.startswith("splu") and not within(lambda: peer.solve(A, b, None), max(limit, 0.3)):
        return f"more than {max(limit, 0.3):.2g} s, or a singular factor"
    narrow = A.dtype == np.float32
    kinds = ["as it is", "float64"] if narrow and not peer.iterates else ["float64" if narrow else "as it is"]
    why = ""
    for kind in kinds:
        for setting in peer.settings:
            run = _call(peer, A, b, setting, kind)
            try:
                x = _guarded(peer, A, b, setting, kind, limit) if peer.iterates else quietly(run)
            except TimeoutError:
                return f"more than {limit:.2g} s"
            except (linalg.LinAlgError, RuntimeError, ValueError) as error:
                why = str(error).split("\n")[0][:70]
                continue
            if error_of(x, truth) <= ERROR:
                words = [*([] if setting is None else [f"{setting:g}"]), *([] if kind == "as it is" else [kind])]
                return Found(name, run, " ".join(words), least(run, limit))
            why = f"error {error_of(x, truth):.1g}"
    return why


def _call(peer: Peer, A: Any, b: np.ndarray, setting: Any, kind: str) -> Callable[[], np.ndarray]:
    if kind == "float64":
        return lambda: peer.solve(_wide(A), _wide(b), setting)
    return lambda: peer.solve(A, b, setting)


def _guarded(peer: Peer, A: Any, b: np.ndarray, setting: Any, kind: str, limit: float) -> np.ndarray:
    """Run an iterative peer; raise TimeoutError if it takes longer than the limit."""
    A, b = (_wide(A), _wide(b)) if kind == "float64" else (A, b)
    transposed, ends = A.T, time.perf_counter() + limit

    def product(matrix: Any, v: np.ndarray) -> np.ndarray:
        if time.perf_counter() > ends:
            raise TimeoutError
        return matrix @ v

    operator = LinearOperator(
        A.shape, matvec=lambda v: product(A, v), rmatvec=lambda v: product(transposed, v), dtype=A.dtype
    )
    return peer.solve(operator, b, setting)


def quietly(run: Callable[[], Any]) -> Any:
    """Run without warnings, since the error is checked afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run()


def least(run: Callable[[], Any], limit: float) -> float:
    """Return the minimum time of two runs, or the time of one long run."""
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        quietly(run)
        seconds.append(time.perf_counter() - started)
        if seconds[0] > min(1.0, limit / 3):
            break
    return min(seconds)


def _ends_well(run: Callable[[], Any]) -> None:
    """Run, and exit with code 1 if this raises."""
    try:
        quietly(run)
    except (RuntimeError, MemoryError):
        sys.exit(1)


def within(run: Callable[[], Any], seconds: float) -> bool:
    """Whether a run succeeds within `seconds`, tried in a separate process, since a factorization cannot be stopped."""
    process = multiprocessing.get_context("fork").Process(target=_ends_well, args=[run], daemon=True)
    process.start()
    process.join(seconds)
    ended = process.exitcode == 0
    if process.exitcode is None:
        process.kill()
        process.join()
    return ended
