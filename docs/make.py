"""Generate the tables of README.md, CONTRIBUTING.md and docs, and the demo of README.md.

make docs
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np

from rowsolve.cli.methods import methods_as_markdown
from rowsolve.race.report import machine_in_words, results_as_markdown
from rowsolve.race.results import Result, of_document

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))
import wild_report  # noqa: E402

AT = (0.0, 0.05, 0.25, 0.5, 0.75, 1.0)
ORDERS = ("in order", "random")


def put(text: str, name: str, content: str) -> str:
    """Return `text` with the part between the markers of `name` replaced by `content`."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = text.split(start)
    return before + start + content + end + rest.split(end)[1]


def race_results() -> list[Result]:
    """Return the results of the last `make bench`."""
    text = (ROOT / "benchmarks" / "results" / "race.json").read_text(encoding="utf-8")
    return of_document(json.loads(text))


def race() -> str:
    """Return the table of the last `make bench`."""
    return results_as_markdown(race_results())


def wild() -> str:
    """Return the table of the last `make bench-wild`, with idle threads: one line for each family."""
    found = json.loads((ROOT / "benchmarks" / "results" / "wild.json").read_text(encoding="utf-8"))
    results, way = found["results"], "rested"
    ratios = wild_report.ratios_of(results, way)
    quantiles = ", ".join(f"{value:.2g} ({q:.0%})" for q, value in zip(AT, np.quantile(ratios, AT), strict=True))
    lines = [
        f"{len(results)} systems drawn with seed {found['seed']}. Ratio (quantile) of the {ratios.size} for which the "
        f"best peer takes at least 1 ms: {quantiles}; at least 0.9 in "
        f"{np.mean(ratios >= 0.9):.0%} of them, at least 0.5 in {np.mean(ratios >= 0.5):.0%}. "
        + " ".join(wild_report.small_in_words(results, way)) + " "
        f"The true error of rowsolve was above 1e-6 in {sum(one['wrong'] for one in results)} of the {len(results)} "
        f"(the largest was {max(one['error'] for one in results):.2g}).",
        *after_a_product(results),
        *with_a_busy_core(results),
        *others_at_work(results),
        "",
        "| family | systems | smallest ratio | median | largest |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for name in dict.fromkeys(one["family"] for one in results):
        own = wild_report.ratios_of([one for one in results if one["family"] == name], way)
        if own.size:
            lines.append(f"| {name} | {own.size} | {own.min():.2g} | {np.median(own):.2g} | {own.max():.2g} |")
    return "\n".join([*lines, "", f"Machine: {machine_in_words(found['machine'])}."]) + "\n"


def after_a_product(results: list[wild_report.Result]) -> list[str]:
    """Return a paragraph on the systems that were also solved right after a matrix product; empty if none were."""
    some = [one for one in results if "product" in one["seconds"]]
    ratios = wild_report.ratios_of(some, "product")
    if not ratios.size:
        return []
    shares = ", ".join(f"at least {least:g} in {np.mean(ratios >= least):.0%}" for least in (0.8, 0.5))
    small = " ".join(wild_report.small_in_words(some, "product"))
    median = f"median {np.median(ratios):.2g}, {shares}. {small}"
    return ["", f"Right after a matrix product by numpy, whose threads are then still spinning: {median}"]


def with_a_busy_core(results: list[wild_report.Result]) -> list[str]:
    """Return a paragraph on the systems that were also solved while a core was busy; empty if none were."""
    ratios = wild_report.ratios_of([one for one in results if "busy" in one["seconds"]], "busy")
    if not ratios.size:
        return []
    usual, most = np.median(1.0 / ratios), 1.0 / ratios.min()
    words = f"`solve` takes {usual:.2g} times as long as with `threads=1` in the median, and at most {most:.2g} times."
    return ["", f"While another program keeps one core busy, {words}"]


def others_at_work(results: list[wild_report.Result]) -> list[str]:
    """Return a paragraph on other programs that were running; empty if there were none."""
    words = wild_report.others_in_words(results)
    return ["", *words] if words else []


def limits() -> str:
    """Return the tables of the last `make bench-limits`."""
    found = json.loads((ROOT / "benchmarks" / "results" / "limits.json").read_text(encoding="utf-8"))
    counts = found["bandwidth"][0]["threads"]
    lines = [
        "Gigabytes per second, and their ratio to a matrix-vector product (BLAS gemv) with as many threads:",
        "",
        "| A | threads | gemv | consecutive rows | | random rows | |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found["bandwidth"]:
        rates = one["gigabytes_a_second"]
        for count in counts:
            most = rates[f"gemv {count}"]
            cells = (f"{rates[f'{order} {count}']:.1f} | {rates[f'{order} {count}'] / most:.0%}" for order in ORDERS)
            shape = " x ".join(f"{size:,}" for size in one["shape"])
            lines.append(f"| {shape} {one['dtype']} | {count} | {most:.1f} | {' | '.join(cells)} |")
    steps = found["steps"]
    plain = steps["microseconds_a_step"]["randomized"]
    shape = " x ".join(f"{size:,}" for size in steps["shape"])
    head = f"Time of a step on {shape}, one thread, and the same divided by that of `randomized`:"
    lines += ["", head, "", "| method | microseconds | ratio |", "|---|---|---|"]
    lines += [f"| {name} | {us:.2f} | {us / plain:.1f} |" for name, us in steps["microseconds_a_step"].items()]
    lines += ["", f"Time of `A.T @ A` and `A.T @ b` in milliseconds, {found['threads']} threads:", "",
              "| A | numpy | rowsolve | ratio |", "|---|---|---|---|"]  # fmt: skip
    for one in found["grams"]:
        numpy, ours = one["milliseconds"]["numpy"], one["milliseconds"]["rowsolve"]
        shape = " x ".join(f"{size:,}" for size in one["shape"])
        lines.append(f"| {shape} | {numpy:.2f} | {ours:.2f} | {numpy / ours:.1f} |")
    seconds = found["growth"]["seconds"]
    growth = ", ".join(f"{1e3 * value:.1f} ms at n = {int(n):,}" for n, value in seconds.items())
    latency = ", ".join(f"{name} {value:.2f} ms" for name, value in found["latency_ms"].items())
    lines += [
        "",
        f"Time of a solve with p = 1,000 and `rtol=1e-6`, {found['threads']} threads: {growth}.",
        f"Time of a solve of 200 x 20 to a true error of 1e-6: {latency}.",
        "",
        f"Machine: {machine_in_words(found['machine'])}.",
    ]
    return "\n".join(lines) + "\n"


def files() -> str:
    """Return the table of the last `make bench-files`."""
    found = json.loads((ROOT / "benchmarks" / "results" / "files.json").read_text(encoding="utf-8"))
    size = f"{found['rows']:,} x {found['columns']:,} ({8e-9 * found['rows'] * found['columns']:.3g} GB)"
    lines = [
        f"{size}, within {found['memory']}, to a true relative error of {found['error']:g}:",
        "",
        "| b | solver and file | seconds | read (GB) | memory (MB) | true error | status |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in found["runs"]:
        lines.append(
            f"| {run['case']} | {run['name']} | {run['seconds']:.3g} | {run['bytes'] / 1e9:.3g} | "
            f"{(run['peak'] - run['before']) / 1e6:.0f} | {run['error']:.1e} | {run['status']} |"
        )
    return "\n".join([*lines, "", f"Machine: {machine_in_words(found['machine'])}."]) + "\n"


def packages() -> str:
    """Return the table of packages from their docstrings, each after those that it imports."""
    docs = {}
    for init in sorted((ROOT / "src" / "rowsolve").glob("*/__init__.py")):
        doc = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
        docs[init.parent.name] = doc.partition("\n")[0], " ".join(doc.rpartition("May import: ")[2].rstrip(".").split())
    numbers = re.compile(r"`policy\.(prices|thresholds)`")  # modules without imports, which all packages may use
    uses = {name: set(re.findall(r"`(\w+)", numbers.sub("", may))) & docs.keys() for name, (_, may) in docs.items()}
    uses["checkpoint"], uses["policy"] = set(), {"problem"}  # they import single modules of what imports them
    lines = ["| package | what is in it | may import |", "|---|---|---|"]
    lines += [f"| `{name}` | {docs[name][0]} | {docs[name][1]} |" for name in TopologicalSorter(uses).static_order()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrite the generated parts of README.md, CONTRIBUTING.md and docs."""
    demo = subprocess.run(
        [sys.executable, "-m", "rowsolve", "demo", "--out", "docs/demo.png", "--force"],
        cwd=ROOT, env={**os.environ, "COLUMNS": "100"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    text = put(text, "methods", methods_as_markdown())
    text = put(text, "wild", wild())
    text = put(text, "race", race())
    text = put(text, "demo", f"```text\n$ rowsolve demo\n{demo.rstrip()}\n```\n")
    path.write_text(text, encoding="utf-8")
    tables = {"docs/performance": ("limits", limits()), "docs/bigger-than-memory": ("files", files())}
    for name, (mark, table) in {**tables, "CONTRIBUTING": ("packages", packages())}.items():
        page = ROOT / f"{name}.md"
        page.write_text(put(page.read_text(encoding="utf-8"), mark, table), encoding="utf-8")


if __name__ == "__main__":
    main()
