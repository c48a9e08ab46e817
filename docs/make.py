"""Make everything in README.md that a program can make: the tables of methods and of the race, the demo.

make docs
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from rowsolve.cli.methods import methods_as_markdown
from rowsolve.race.report import results_as_markdown
from rowsolve.race.results import of_document

ROOT = Path(__file__).parent.parent


def put(text: str, name: str, content: str) -> str:
    """Return `text` with what stands between the marks of `name` replaced."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = text.split(start)
    return before + start + content + end + rest.split(end)[1]


def race() -> str:
    """Return the table of what `make bench` found last."""
    text = (ROOT / "benchmarks" / "results" / "race.json").read_text(encoding="utf-8")
    return results_as_markdown(of_document(json.loads(text)))


def main() -> None:
    """Rewrite README.md and docs/demo.png."""
    demo = subprocess.run(
        [sys.executable, "-m", "rowsolve", "demo", "--out", "docs/demo.png"],
        cwd=ROOT, env={**os.environ, "COLUMNS": "100"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    text = put(text, "methods", methods_as_markdown())
    text = put(text, "race", race())
    text = put(text, "demo", f"```text\n$ rowsolve demo\n{demo.rstrip()}\n```\n")
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
