"""Compare a solve of a file within 300 MB of memory with scipy's lsqr on the same file mapped into memory.

    make bench-files                          # 2 GB, some minutes: benchmarks/results/files.json
    make bench-files ARGS="--quick"           # 190 MB: files-quick.json
    make bench-files ARGS="--passes"          # 2 GB: one pass compared with the library of each format
    make bench-files ARGS="--passes --quick"  # 200 MB, without gzip and CSV, less than a minute

Each run is a separate process. Its peak of anonymous memory is polled from /proc; the memory that it used before the
solve (interpreter, libraries, compiled kernels) is subtracted. Times are those of the solve alone. lsqr gets the
loosest tolerance that reaches the true error; the bytes that it reads are computed from the number of products with A.
The files were written just before, so they are in the cache of the operating system if they fit there.

With --passes, the library of each format reads its file once, from the first row to the last; in turns with it,
rowsolve makes one pass over the same file. A noisy system is solved in a separate process. Times are the minimum of
several runs. Results of the other kind, with or without --passes, are kept in the results file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import rowsolve
from rowsolve._validate import opened_system
from rowsolve.problem.system import System
from rowsolve.race.iterative import LSQR
from rowsolve.race.machine import describe
from rowsolve.race.problem import least_squares
from rowsolve.sources import open_store

RESULTS = Path(__file__).parent / "results"
ERROR = 1e-6
FORMATS = ("npy", "h5", "zarr", "parquet")
TINY = (400, 8)  # a system that is solved first, to import and compile
PIECE = 5000  # rows generated at a time
POLL = 0.002  # seconds
LAYOUTS = (
    "contiguous.h5", "chunked.h5", "gzip.h5", "auto.zarr", "plain.parquet", "dictionary.parquet", "lines.csv",
)  # fmt: skip
QUICK_LAYOUTS = tuple(layout for layout in LAYOUTS if layout not in ("gzip.h5", "lines.csv"))  # the slowest
ROW_GROUP = 131_072  # rows
AT_ONCE = 4e6  # bytes that a library reads in one call
TURNS = 3
THREADS = 2


def make(folder: Path, shape: tuple[int, int], noise: float, endings: Sequence[str] = FORMATS[1:]) -> None:
    """Write a Gaussian system, with and without noise in b, as .npy and with these `endings`; and the solutions."""
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
    for ending in endings:
        for name in ("A", "tiny"):
            rowsolve.convert(folder / f"{name}.npy", folder / f"{name}.{ending}", memory="300MB")


def ours(folder: Path, ending: str, case: str, memory: str) -> dict[str, Any]:
    """Solve with rowsolve, after imports and compilation."""
    for method in ("direct", "refined"):
        rowsolve.solve(folder / f"tiny.{ending}", np.arange(float(TINY[0])), method, rng=0)
    _print_ready()
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
    _print_ready()
    started = time.perf_counter()
    finish = LSQR().run(A, b, setting, 3600.0)
    return {
        "x": finish.x.tolist(), "seconds": time.perf_counter() - started, "passes": finish.passes,
        "bytes": (finish.passes or 0.0) * A.nbytes, "status": finish.status,
    }  # fmt: skip


def write_layouts(folder: Path, name: str) -> None:
    """Write the array `name` with the defaults of each library for chunks and compression."""
    import h5py
    import pyarrow as pa
    import zarr
    from pyarrow import csv, parquet

    A = np.load(folder / f"{name}.npy", mmap_mode="r")
    options: tuple[dict[str, Any], ...] = ({}, {"chunks": True}, {"compression": "gzip", "compression_opts": 1})
    for layout, chosen in zip(LAYOUTS[:3], options, strict=True):
        with h5py.File(folder / f"{name}.{layout}", "w") as file:
            file.create_dataset("A", data=A, **chosen)
    zarr.create_array(folder / f"{name}.auto.zarr", data=np.asarray(A))
    table = pa.table({f"c{j}": np.ascontiguousarray(column) for j, column in enumerate(A.T)})
    parquet.write_table(table, folder / f"{name}.plain.parquet", row_group_size=ROW_GROUP, use_dictionary=False)
    parquet.write_table(table, folder / f"{name}.dictionary.parquet", row_group_size=ROW_GROUP)
    csv.write_csv(table, folder / f"{name}.lines.csv")


def read_once(path: Path) -> None:
    """Read a file with the library of its format, in the order of its rows."""
    if path.suffix == ".parquet":
        from pyarrow import parquet

        file = parquet.ParquetFile(path)
        for group in range(file.num_row_groups):
            file.read_row_group(group)
    elif path.suffix == ".csv":
        from pyarrow import csv

        with csv.open_csv(path) as batches:
            for _ in batches:
                pass
    elif path.suffix == ".zarr":
        import zarr

        _read_slices(zarr.open_array(path, mode="r"))
    else:
        import h5py

        with h5py.File(path) as file:
            _read_slices(file["A"])


def _read_slices(array: Any) -> None:
    chunk, row = array.chunks[0] if array.chunks else 1, array.dtype.itemsize * array.shape[1]
    step = chunk * max(1, int(AT_ONCE / (chunk * row)))
    for start in range(0, array.shape[0], step):
        array[start : start + step]


def pass_over(path: Path, memory: str) -> None:
    """Read all rows of a file once, in the pieces that methods use."""
    with open_store(path) as store, opened_system(store, np.ones(store.shape[0]), memory, THREADS) as (source, b, _):
        assert sum(piece.n_rows for piece in System(source, b, threads=THREADS).pieces()) == b.size


def take_turns(folder: Path, ending: str, memory: str) -> dict[str, Any]:
    """Return the minimum times of the library and of a pass of rowsolve, or the error if the memory is too small."""
    read_once(folder / f"tiny.{ending}")
    pass_over(folder / f"tiny.{ending}", memory)
    _print_ready()
    calls: dict[str, Callable[[Path], None]] = {"library": read_once, "pass": lambda path: pass_over(path, memory)}
    found: dict[str, list[float]] = {name: [] for name in calls}
    try:
        for _ in range(TURNS):
            for name, call in calls.items():
                started = time.perf_counter()
                call(folder / f"A.{ending}")
                found[name].append(time.perf_counter() - started)
    except ValueError as error:  # too little memory
        return {"library": min(found["library"], default=None), "refused": str(error).replace(f"{folder}/", "")}
    return {name: min(seconds) for name, seconds in found.items()}


def compare_passes(folder: Path, layouts: Sequence[str], memory: str) -> list[dict[str, Any]]:
    """Return the times of the library, of a pass, and of the solve of a noisy system, for each layout."""
    x, runs = np.load(folder / "x-noisy.npy"), []
    for ending in layouts:
        run = {"layout": ending, **watched("--turns", str(folder), ending, memory)}
        if "refused" not in run:
            solved = watched("--ours", str(folder), ending, "noisy", memory)
            error = float(np.linalg.norm(np.array(solved["x"]) - x) / np.linalg.norm(x))
            run |= {"solve": solved["seconds"], "memory": solved["peak"] - solved["before"], "error": error}
        runs.append({name: value for name, value in run.items() if name not in ("before", "peak")})
    return runs


def passes_as_table(found: dict[str, Any]) -> Table:
    """Return the times of the passes as a table for the terminal."""
    table = Table(title=f"{found['rows']:,} x {found['columns']:,} in files, within {found['memory']}")
    for name in ("file", "library (s)", "pass / library", "solve / library", "memory (MB)", "true error"):
        table.add_column(name, justify="left" if name == "file" else "right")
    for run in found["runs"]:
        if "refused" in run:
            table.add_row(run["layout"], f"{run['library']:.3g}", "error")
            table.caption = run["refused"]
            continue
        table.add_row(
            run["layout"], f"{run['library']:.3g}", f"{run['pass'] / run['library']:.2f}",
            f"{run['solve'] / run['library']:.2f}", f"{run['memory'] / 1e6:.0f}", f"{run['error']:.1e}",
        )  # fmt: skip
    return table


def _print_ready() -> None:
    print("ready", flush=True)


def watched(*arguments: str) -> dict[str, Any]:
    """Run this file with `arguments` in a separate process; return its results, with its peak of memory."""
    command = [sys.executable, __file__, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # printed when the process is ready
        before = peak = _anonymous(process.pid)
        while process.poll() is None and not _has_output(process):
            peak = max(peak, _anonymous(process.pid))
            time.sleep(POLL)
        found = json.loads(process.stdout.read())
    return {**found, "before": before, "peak": peak}


def _has_output(process: subprocess.Popen[str]) -> bool:
    import select

    return bool(select.select([process.stdout], [], [], 0.0)[0])


def _anonymous(pid: int) -> float:
    """Return the anonymous memory of a process in bytes."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((1024.0 * float(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0.0)


def compare(folder: Path, case: str, memory: str, repeats: int) -> list[dict[str, Any]]:
    """Run all solvers on one right-hand side; the minimum time counts."""
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
    # The two that are compared by time run in turns; the other formats show the error and the memory.
    rounds = [[judged(name, *arguments) for name, arguments in entries[:2]] for _ in range(repeats)]
    others = [(judged(name, *arguments),) for name, arguments in entries[2:]]
    return [
        {**min(runs, key=lambda run: run["seconds"]), "peak": max(run["peak"] for run in runs)}
        for runs in (*zip(*rounds, strict=True), *others)
    ]


def as_table(found: dict[str, Any]) -> Table:
    """Return the results as a table for the terminal."""
    table = Table(title=f"{found['rows']:,} x {found['columns']:,} in files, within {found['memory']}")
    for name in ("b", "solver and file", "seconds", "read (GB)", "memory (MB)", "true error", "status"):
        table.add_column(name, justify="left" if name in ("b", "solver and file", "status") else "right")
    for run in found["runs"]:
        table.add_row(
            run["case"], run["name"], f"{run['seconds']:.3g}", f"{run['bytes'] / 1e9:.3g}",
            f"{(run['peak'] - run['before']) / 1e6:.0f}", f"{run['error']:.1e}", run["status"],
        )  # fmt: skip
    return table


def main() -> None:
    """Write the files, run the comparison, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="190 MB instead of 2 GB, within 150 MB instead of 300")
    parser.add_argument("--folder", type=Path, help="folder for the files, with space for four of them")
    parser.add_argument("--ours", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--lsqr", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--passes", action="store_true", help="compare one pass with the library of each format")
    parser.add_argument("--turns", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ours or args.lsqr or args.turns:
        print(json.dumps(measure_here(args)))
        return
    path = RESULTS / ("files-quick.json" if args.quick else "files.json")
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        result = passes(Path(name), quick=args.quick) if args.passes else solves(Path(name), quick=args.quick)
    # The results of the other kind are kept.
    kept = {**before, "passes": result} if args.passes else {**result, "passes": before.get("passes")}
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    Console(highlight=False).print(passes_as_table(result) if args.passes else as_table(result))


def measure_here(args: argparse.Namespace) -> dict[str, Any]:
    """Return the results of the measurement in this process, whose memory another process observes."""
    folder = Path((args.ours or args.lsqr or args.turns)[0])
    if args.turns:
        return take_turns(folder, *args.turns[1:])
    return ours(folder, *args.ours[1:]) if args.ours else lsqr(folder, args.lsqr[1], float(args.lsqr[2]))


def solves(folder: Path, *, quick: bool) -> dict[str, Any]:
    """Return the results of the solves, by rowsolve and by lsqr."""
    shape, memory, repeats = ((60_000, 400), "150MB", 1) if quick else ((250_000, 1_000), "300MB", 3)
    make(folder, shape, noise=0.1)
    runs = [run for case in ("consistent", "noisy") for run in compare(folder, case, memory, repeats)]
    return {
        "rows": shape[0], "columns": shape[1], "memory": memory, "error": ERROR, "runs": runs, "machine": describe(),
    }  # fmt: skip


def passes(folder: Path, *, quick: bool) -> dict[str, Any]:
    """Return the times of a pass of rowsolve and of the library of each format."""
    shape, memory = ((100_000, 250), "300MB") if quick else ((1_000_000, 250), "300MB")
    make(folder, shape, noise=0.1, endings=())
    for name in ("A", "tiny"):
        write_layouts(folder, name)
    runs = compare_passes(folder, QUICK_LAYOUTS if quick else LAYOUTS, memory)
    return {"rows": shape[0], "columns": shape[1], "memory": memory, "runs": runs, "machine": describe()}


if __name__ == "__main__":
    main()
