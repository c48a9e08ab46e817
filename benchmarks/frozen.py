"""Check that a change of the code does not change the results of `solve`, bit for bit, on some hundred systems.

    make frozen ARGS="--save before.json"     # then change the code
    make frozen ARGS="--compare before.json"  # list each solve whose x, status or counts differ

A record contains for each solve a digest of x, the status, the method, the rank, the error estimate, the rows read and
the events passed to the callback. Messages are recorded as well and compared with --words. The last bits depend on the
machine and on the libraries: compare only records of the same machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import rowsolve
from rowsolve.methods import METHODS

SHAPES = ((60, 5), (400, 30), (3000, 120), (20_000, 60), (6000, 700))
Case = tuple[str, dict[str, Any]]


def rng_of(name: str) -> np.random.Generator:
    """Return a generator seeded with the name."""
    return np.random.default_rng(list(name.encode()))


def gaussian(shape: tuple[int, int], name: str) -> np.ndarray:
    """Return a Gaussian matrix."""
    return rng_of(name).standard_normal(shape)


def right(A: Any, name: str, noise: float = 0.0, sides: int = 0) -> np.ndarray:
    """Return one or several right-hand sides, with noise."""
    rng = rng_of(name)
    b = A @ rng.standard_normal((A.shape[1], sides) if sides else A.shape[1])
    return b + noise * np.std(b) * rng.standard_normal(b.shape)


def kinds() -> Iterator[tuple[str, Any]]:
    """Yield matrices of all kinds."""
    for shape in SHAPES:
        yield f"normal {shape}", gaussian(shape, "A")
    A = gaussian((4000, 90), "A")
    yield "fortran", np.asfortranarray(A)
    yield "float32", A.astype(np.float32)
    yield "columns twice", np.hstack([A[:, :50], A[:, :30]])
    yield "low rank", A[:, :12] @ gaussian((12, 80), "V")
    yield "decaying", A * np.geomspace(1.0, 1e-7, 90)
    yield "ill-conditioned", A[:900] * np.geomspace(1.0, 1e-12, 90) @ np.linalg.qr(gaussian((90, 90), "Q"))[0]
    yield "correlated", A + 5.0
    yield "zero column", A * (np.arange(90) != 7)
    yield "wide", gaussian((40, 90), "wide")
    yield "barely tall", gaussian((520, 500), "barely")
    yield "one column", A[:, :1]
    yield "dummies", np.eye(30)[rng_of("d").integers(0, 30, 5000)]
    rng = rng_of("sparse")
    yield "sparse", sparse.random_array((9000, 300), density=0.02, rng=rng, format="csr")
    yield "dense csr", sparse.csr_array(A[:2000])
    yield "one-hot", sparse.csr_array((np.ones(9000), rng.integers(0, 200, 9000), np.arange(9001)), shape=(9000, 200))
    heads, tails = rng.integers(0, 500, (2, 4000))
    ends = np.arange(4000)
    yield (
        "pairs",
        (
            sparse.coo_array((np.ones(4000), (ends, heads)), (4000, 500))
            - sparse.coo_array((np.ones(4000), (ends, tails)), (4000, 500))
        ).tocsr(),
    )
    yield "band", sparse.diags_array([2.0, -1.0, 0.5], offsets=[0, 1, 2], shape=(2500, 2000)).tocsr()


def in_memory() -> Iterator[Case]:
    """Yield solves by `auto` of matrices in memory."""
    for kind, A in kinds():
        for noise in (0.0, 0.1):
            for threads in (1, 2):
                name = f"{kind}, noise {noise}, threads {threads}"
                yield name, {"A": A, "b": right(A, kind, noise), "threads": threads}
        yield f"{kind}, three b", {"A": A, "b": right(A, kind, 0.1, 3)}
        yield f"{kind}, damped", {"A": A, "b": right(A, kind, 0.1), "damp": 0.7}
        yield f"{kind}, x >= 0", {"A": A, "b": right(A, kind, 0.1), "bounds": (0.0, np.inf)}
        yield f"{kind}, from a start", {"A": A, "b": right(A, kind, 0.1), "x0": np.ones(A.shape[1])}


def by_method() -> Iterator[Case]:
    """Yield solves by each method, of dense and sparse systems, consistent and not."""
    A, S = (
        gaussian((5000, 120), "methods"),
        sparse.random_array((5000, 120), density=0.1, rng=rng_of("S"), format="csr"),
    )
    for method in METHODS:
        for store, rows in (("dense", A), ("sparse", S)):
            for noise in (0.0, 0.01):
                for threads in (1, 2):
                    options = {"A": rows, "b": right(rows, store, noise), "threads": threads, "max_passes": 60}
                    yield f"{method}, {store}, noise {noise}, threads {threads}", {**options, "method": method}
        yield f"{method}, full check", {"A": A, "b": right(A, "full"), "check": "full", "method": method, "rtol": 1e-9}
        yield f"{method}, few passes", {"A": A, "b": right(A, "few"), "max_passes": 0.2, "method": method}


def others() -> Iterator[Case]:
    """Yield solves with outliers, other tolerances and extreme scales."""
    A = gaussian((9000, 80), "others")
    b = right(A, "others")
    wild = b.copy()
    wild[::97] += 30.0
    yield "outliers kept", {"A": A, "b": wild}
    yield "outliers dropped", {"A": A, "b": wild, "outliers": "drop"}
    for rtol in (1e-2, 1e-12, 1e-15):
        yield f"rtol {rtol}", {"A": A, "b": b, "rtol": rtol}
        yield f"rtol {rtol}, noise", {"A": A, "b": right(A, "more", 0.1), "rtol": rtol}
    yield "b of zeros", {"A": A, "b": 0.0 * b}
    yield "huge", {"A": 1e120 * A, "b": 1e120 * b}
    yield "tiny", {"A": 1e-120 * A, "b": 1e-120 * b}


def from_files(folder: Path) -> Iterator[Case]:
    """Yield solves of files and streams within a memory limit."""
    A = gaussian((40_000, 60), "files")
    noisy, exact = right(A, "files", 0.1), right(A, "files")
    for ending in ("npy", "h5", "zarr", "parquet", "csv"):
        path = folder / f"A.{ending}"
        np.save(folder / "A.npy", A)
        if ending != "npy":
            rowsolve.convert(folder / "A.npy", path)
        for word, b in (("noisy", noisy), ("exact", exact)):
            yield f"{ending}, {word}", {"A": path, "b": b, "memory": "60MB" if ending != "npy" else None}
        yield f"{ending}, by randomized", {"A": path, "b": exact, "memory": "60MB", "method": "randomized"}
    yield "stream", {"A": lambda: ((A[i : i + 3000], noisy[i : i + 3000]) for i in range(0, 40_000, 3000)), "b": None}


def record_of(options: dict[str, Any]) -> dict[str, Any]:
    """Solve, and return the results that must not change."""
    events: list[tuple[str, int]] = []
    A, b = options.pop("A"), options.pop("b")
    try:
        found = rowsolve.solve(
            A, b, rng=5, callback=lambda event: events.append((event.stage, event.rows_read)), **options
        )
        again = rowsolve.solve(A, b, rng=5, **options)  # without a callback, `solve_at_once` solves small systems
    except (ValueError, TypeError) as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {
        "first": facts_of(found),
        "again": facts_of(again),
        "events": _digest(repr(events)),
        "message": found.message,
    }


def facts_of(solution: rowsolve.Solution) -> dict[str, Any]:
    """Return a digest of x, and all other results that do not depend on time."""
    off = _digest(solution.rows_off.tobytes()) if solution.rows_off.size else ""
    errors = [float(each).hex() for each in solution.error_estimates]
    return {
        "x": _digest(np.ascontiguousarray(solution.x).tobytes()), "status": solution.status.name,
        "method": solution.method, "rank": solution.rank, "errors": errors, "rows_read": solution.rows_read,
        "bytes_read": solution.bytes_read, "rows_off": off, "history": list(map(int, solution.history.rows_read)),
    }  # fmt: skip


def _digest(data: Any) -> str:
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()[:16]


def record(only: str) -> dict[str, Any]:
    """Solve all systems whose name contains `only`."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for cases in (in_memory(), by_method(), others(), from_files(Path(folder))):
            for name, options in cases:
                if only in name:
                    found[name] = record_of(options)
    return found


def differences(before: dict[str, Any], now: dict[str, Any], *, words: bool) -> list[str]:
    """Return one line for each solve that differs."""
    lines = []
    for name in sorted(before.keys() | now.keys()):
        one, other = dict(before.get(name, {})), dict(now.get(name, {}))
        if not words:
            one.pop("message", None), other.pop("message", None)
        if one != other:
            parts = [key for key in sorted(one.keys() | other.keys()) if one.get(key) != other.get(key)]
            lines.append(f"{name}: {', '.join(_described(key, one.get(key), other.get(key)) for key in parts)}")
    return lines


def _described(key: str, one: Any, other: Any) -> str:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return f"{key} {one} -> {other}"
    changed = [f"{name} {one[name]} -> {other[name]}" for name in one if one[name] != other.get(name)]
    return f"{key} ({'; '.join(changed)})"


def main(argv: list[str] | None = None) -> int:
    """Save a record, or compare with one; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, help="write a record to this file")
    parser.add_argument("--compare", type=Path, help="compare with the record in this file")
    parser.add_argument("--words", action="store_true", help="compare messages too")
    parser.add_argument("--only", default="", help="only solves whose name contains this text")
    args = parser.parse_args(argv)
    now = record(args.only)
    if args.save:
        args.save.write_text(json.dumps(now, indent=1), encoding="utf-8")
        print(f"{len(now)} solves recorded in {args.save}.")
    if args.compare is None:
        return 0
    before = {name: each for name, each in json.loads(args.compare.read_text("utf-8")).items() if args.only in name}
    lines = differences(before, now, words=args.words)
    print("\n".join(lines) or "No differences.")
    print(f"{len(now)} solves, {len(lines)} differ.")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
