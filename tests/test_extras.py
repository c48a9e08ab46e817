"""What works without the extras, and the messages if one is missing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from conftest import gaussian

COMMAND = "The rowsolve command needs typer and rich: pip install 'rowsolve[cli]'.\n"
FIGURES = "error: Figures need matplotlib: pip install 'rowsolve[plot]'.\n"
RUN = "import sys; from rowsolve.__main__ import main; sys.argv[1:] = {!r}; main()"
A, b, _ = gaussian(200, 4)


def without(names, code, folder):
    """Run `code` in a process in which these modules are not installed."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({names!r}))\n"
    command = [sys.executable, "-c", blocked + code]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "A.npy", A)
    np.save(tmp_path / "b.npy", b)
    return tmp_path


def test_library__works_without_rich_typer_and_matplotlib(folder):
    code = """
import numpy as np, rowsolve
from rowsolve.race import lineup, machine, ours, picture, problem, report, running
A, b = np.load("A.npy"), np.load("b.npy")
solution = rowsolve.solve("A.npy", "b.npy", rng=0)
assert solution.converged, solution.message
assert "200 x 4" in str(rowsolve.inspect(A, b, rng=0))
rowsolve.convert("A.npy", "A.csv")
assert sum(len(block) for block in rowsolve.pave(A, rng=0)) == 200
found = running.run_race(problem.Problem(A, b, problem.known(solution.x)), [ours.Rowsolve()], running.Rules(repeats=1))
assert found[0].verdict == "reached"
assert machine.describe()["versions"]["rowsolve"] == rowsolve.__version__
for draw in (solution.plot, lambda: picture.draw_ratios([])):
    try:
        draw()
    except ImportError as error:
        print(error)
"""
    done = without(["rich", "typer", "matplotlib"], code, folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Solution.plot needs matplotlib: pip install 'rowsolve[plot]'.",
        "Figures need matplotlib: pip install 'rowsolve[plot]'.",
    ]


@pytest.mark.parametrize("missing", [["rich"], ["typer"], ["rich", "typer"]])
@pytest.mark.parametrize("args", [["--help"], ["solve", "A.npy", "b.npy"]])
def test_command__says_what_to_install(folder, missing, args):
    done = without(missing, RUN.format(args), folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", COMMAND)


@pytest.mark.parametrize("args", [["demo", "--quick"], ["reproduce", "--quick"]])
def test_commands_that_draw__say_what_to_install_before_they_compute(folder, args):
    done = without(["matplotlib"], RUN.format(args), folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", FIGURES)
    assert sorted(path.name for path in folder.iterdir()) == ["A.npy", "b.npy"]


def test_other_commands__need_no_matplotlib(folder):
    done = without(["matplotlib"], RUN.format(["solve", "A.npy", "b.npy", "-o", "x.npy"]), folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "x.npy").exists()
