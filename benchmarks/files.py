"""Solve a system that is in a file within 300 MB of memory, against scipy's lsqr on the same file mapped into memory.

    make bench-files                          # 2 GB, some minutes: benchmarks/results/files.json
    make bench-files ARGS="--quick"           # 190 MB: files-quick.json

Every run is a process of its own, watched from outside: its peak of anonymous memory is polled from /proc, and what
the process took before it began to solve (interpreter, libraries, compiled kernels) is told apart. Times are those of
the solve alone. lsqr gets the loosest tolerance that reaches the asked true error; what it reads is counted by products
with A. The files have been written just before, so that they are in the cache of the system, if they fit there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import rowsolve
from rowsolve.race.iterative import LSQR
from rowsolve.race.machine import describe
from rowsolve.race.problem import least_squares

RESULTS = Path(__file__).parent / "results"
ERROR = 1e-6
FORMATS = ("npy", "h5", "zarr", "parquet")
TINY = (400, 8)  # to import and compile before anything is measured
PIECE = 5000  # rows that are made at a time
POLL = 0.002  # seconds


def make(folder: Path, shape: tuple[int, int], noise: float) -> None:
    """Write a normal system, with and without noise in b, in all formats; and the solutions."""
    rng, (n, p) = np.random.default_rng(0), shape
    A = np.lib.format.open_memmap(folder / "A.npy", mode="w+", dtype=float, shape=shape)
    x, b = rng.standard_normal(p), np.empty(n)
    for start in range(0, n, PIECE):
        piece = rng.standard_normal((min(PIECE, n - start), p))
        A[start : start + PIECE], b[start : start + PIECE] = piece, piece @ x
    A.flush()
    noisy = b + noise * np.std(b) * rng.standard_normal(n)
    np.save(folder / "consistent.npy", b)
    np.save(folder / "noisy.npy", noisy)
    np.save(folder / "x-consistent.npy", x)
    np.save(folder / "x-noisy.npy", least_squares(A, noisy).x)
    np.save(folder / "tiny.npy", rng.standard_normal(TINY))
    for ending in FORMATS[1:]:
        for name in ("A", "tiny"):
            rowsolve.convert(folder / f"{name}.npy", folder / f"{name}.{ending}", memory="300MB")


def ours(folder: Path, ending: str, case: str, memory: str) -> dict[str, Any]:
    """Solve with rowsolve; compiling and importing come before."""
    for method in ("direct", "refined"):
        rowsolve.solve(folder / f"tiny.{ending}", np.arange(float(TINY[0])), method, rng=0)
    _say_ready()
    solution = rowsolve.solve(folder / f"A.{ending}", folder / f"{case}.npy", rtol=ERROR, memory=memory, rng=0)
    return {
        "x": solution.x.tolist(), "seconds": solution.seconds, "bytes": solution.bytes_read,
        "passes": solution.passes, "status": f"{solution.status.name} ({solution.method})",
    }  # fmt: skip


def lsqr(folder: Path, case: str, setting: float) -> dict[str, Any]:
    """Solve with scipy's lsqr over the mapped file."""
    from scipy.sparse import linalg

    A, b = np.load(folder / "A.npy", mmap_mode="r"), np.load(folder / f"{case}.npy")
    linalg.lsqr(np.eye(4)[:, :2], np.ones(4))
    _say_ready()
    started = time.perf_counter()
    finish = LSQR().run(A, b, setting, 3600.0)
    return {
        "x": finish.x.tolist(), "seconds": time.perf_counter() - started, "passes": finish.passes,
        "bytes": (finish.passes or 0.0) * A.nbytes, "status": finish.status,
    }  # fmt: skip


def _say_ready() -> None:
    print("ready", flush=True)


def watched(*arguments: str) -> dict[str, Any]:
    """Run this file with `arguments` in a process of its own; return what it found, with its peak of memory."""
    command = [sys.executable, __file__, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
        before = peak = _anonymous(process.pid)
        while process.poll() is None and not _has_said(process):
            peak = max(peak, _anonymous(process.pid))
            time.sleep(POLL)
        found = json.loads(process.stdout.read())
    return {**found, "before": before, "peak": peak}


def _has_said(process: subprocess.Popen[str]) -> bool:
    import select

    return bool(select.select([process.stdout], [], [], 0.0)[0])


def _anonymous(pid: int) -> float:
    """Return the bytes of memory of a process that are in no file."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((1024.0 * float(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0.0)


def compare(folder: Path, case: str, memory: str, repeats: int) -> list[dict[str, Any]]:
    """Run everybody on one right-hand side; the least time counts."""
    x = np.load(folder / f"x-{case}.npy")

    def judged(name: str, *arguments: str) -> dict[str, Any]:
        found = watched(*arguments)
        error = float(np.linalg.norm(np.array(found.pop("x")) - x) / np.linalg.norm(x))
        return {"case": case, "name": name, "error": error, **found}

    setting = ERROR
    while judged("", "--lsqr", str(folder), case, str(setting))["error"] > ERROR:
        setting /= 10.0
    entries = [("scipy lsqr, .npy mapped", ("--lsqr", str(folder), case, str(setting)))]
    entries += [(f"rowsolve, .{ending}", ("--ours", str(folder), ending, case, memory)) for ending in FORMATS]
    # The two that are compared by time take turns; the other formats are there for the answer and the memory.
    rounds = [[judged(name, *arguments) for name, arguments in entries[:2]] for _ in range(repeats)]
    others = [(judged(name, *arguments),) for name, arguments in entries[2:]]
    return [
        {**min(runs, key=lambda run: run["seconds"]), "peak": max(run["peak"] for run in runs)}
        for runs in (*zip(*rounds, strict=True), *others)
    ]


def as_table(found: dict[str, Any]) -> Table:
    """Return the results for the terminal."""
    table = Table(title=f"{found['rows']:,} x {found['columns']:,} in files, {found['memory']} allowed")
    for name in ("b", "who", "seconds", "read (GB)", "memory (MB)", "true error", "how it ended"):
        table.add_column(name, justify="left" if name in ("b", "who", "how it ended") else "right")
    for run in found["runs"]:
        table.add_row(
            run["case"], run["name"], f"{run['seconds']:.3g}", f"{run['bytes'] / 1e9:.3g}",
            f"{(run['peak'] - run['before']) / 1e6:.0f}", f"{run['error']:.1e}", run["status"],
        )  # fmt: skip
    return table


def main() -> None:
    """Make the files, race, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="190 MB instead of 2 GB, 150 MB allowed instead of 300")
    parser.add_argument("--folder", type=Path, help="a folder with room for four such files")
    parser.add_argument("--ours", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--lsqr", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.ours or asked.lsqr:
        folder = Path((asked.ours or asked.lsqr)[0])
        found = ours(folder, *asked.ours[1:]) if asked.ours else lsqr(folder, asked.lsqr[1], float(asked.lsqr[2]))
        print(json.dumps(found))
        return
    shape, memory, repeats = ((60_000, 400), "150MB", 1) if asked.quick else ((250_000, 1_000), "300MB", 3)
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        make(Path(name), shape, noise=0.1)
        runs = [run for case in ("consistent", "noisy") for run in compare(Path(name), case, memory, repeats)]
    result = {
        "rows": shape[0], "columns": shape[1], "memory": memory, "error": ERROR, "runs": runs, "machine": describe(),
    }  # fmt: skip
    path = RESULTS / ("files-quick.json" if asked.quick else "files.json")
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    Console(highlight=False).print(as_table(result))


if __name__ == "__main__":
    main()
