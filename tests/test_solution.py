"""The solution object, as a user of scipy expects it."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from conftest import gaussian

import rowsolve
from rowsolve import History, RowCheck, Solution, Status
from rowsolve._solution import Cost
from rowsolve.engine.residuals import residual_of_some

A, B = gaussian(50, 3, noise=0.1)[:2]
UNIFORM = rowsolve.Randomized(weights="uniform")
WORDS = "The system is small: 'refined' found the least-squares solution. The estimated error is within the tolerance."


def made_by_hand(**others):
    """Return a solution of which every field is known."""
    history = History()
    history.add("block", 32, 0.01, math.nan, 0.5)
    history.add("refined", 64, 0.02, 0.25, math.nan)
    given = {
        "x": np.array([1.0, -2.5]), "status": Status.CONVERGED, "message": WORDS,
        "error_estimates": np.array([1.234e-7]), "rank": 2, "optimality": None,
        "row_check": RowCheck(0.0123456, math.nan, 256, 256, full=False), "method": "refined",
        "cost": Cost(64, 0.125, 1024.0, 0.02, 0.0), "rows_off": np.array([3, 4]), "history": history,
    }  # fmt: skip
    return Solution(**{**given, **others})


# Another value for each field; those that hold NaN differ in a place that does not.
OTHERS = {
    "x": np.array([1.0, -2.0]), "status": Status.PRECISION, "message": "Other words.",
    "error_estimates": np.array([math.nan]), "rank": None, "optimality": 0.0,
    "row_check": RowCheck(0.0123456, math.nan, 255, 255, full=False), "method": "block",
    "cost": Cost(64, 0.125, 1024.0, 0.03, 0.0), "rows_off": np.array([3]),
    "history": History(["block", "refined"], [32, 64], [0.01, 0.02], [math.nan, 0.5], [0.5, math.nan]),
}  # fmt: skip


@pytest.mark.parametrize("n_sides", [None, 1, 3])
@pytest.mark.parametrize(
    "options", [{}, {"check": "full"}, {"method": "refined"}, {"damp": 2.0}, {"method": "block", "check": "full"}]
)
def test_residual__is_the_norm_over_all_rows(n_sides, options):
    A, b, _ = gaussian(300, 8, noise=0.1)
    b = b if n_sides is None else np.random.default_rng(0).standard_normal((300, n_sides))
    found = rowsolve.solve(A, b, rng=0, **options)
    assert type(found.residual) is float
    assert found.row_check.full
    assert found.residual == pytest.approx(np.linalg.norm(b - A @ found.x), rel=1e-9)


def test_residual__counts_rows_of_zeros():
    A, b, _ = gaussian(300, 8)
    A[7], b[7] = 0.0, 5.0
    found = rowsolve.solve(A, b, "randomized", rng=0, check="full")
    assert found.residual == pytest.approx(5.0)


@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e120])
@pytest.mark.parametrize("n_sides", [None, 2])
def test_residual__is_estimated_from_sampled_rows(n_sides, scale):
    A, b, _ = gaussian(3000, 8, noise=0.1)
    b = scale * (b if n_sides is None else np.column_stack([b, b[::-1]]))
    found = rowsolve.solve(A, b, UNIFORM, rng=0, max_passes=1)
    assert not found.row_check.full
    assert found.row_check.n_rows == 256
    assert found.residual == pytest.approx(np.linalg.norm(b - A @ found.x), rel=0.15)


def test_residual__does_not_need_a_b_in_the_sampled_rows():
    A, _, x = gaussian(6000, 4)
    b = np.zeros(6000)
    b[1] = 3.0
    looked_at = slice(0, 23 * 256, 23)
    found = residual_of_some(A, b, x[None], 3.0)
    assert (found.n_rows, found.full) == (256, False)
    assert found.residual == pytest.approx(np.linalg.norm(A[looked_at] @ x) * math.sqrt(6000 / 256))


def test_residual__is_not_known_if_no_row_was_checked():
    A, b, _ = gaussian(300, 8)
    found = rowsolve.solve(A, b, UNIFORM, rng=0, callback=lambda _: True)
    assert found.status is Status.STOPPED
    assert found.row_check is None
    assert math.isnan(found.residual)


def test_residual__is_never_that_of_an_earlier_x():
    # Drawing by norm takes only a few rows; the others are checked, and found to be news.
    A, b, _ = gaussian(400, 10, seed=1)
    scale = np.where(np.arange(400) < 5, 1e12, 1.0)
    stages: list[str] = []

    def until(n_events):
        stages.clear()

        def callback(event):
            stages.append(event.stage)
            return len(stages) == n_events

        return rowsolve.solve(A * scale[:, None], b * scale, "randomized", rng=0, callback=callback)

    assert until(math.inf).row_check is not None
    last = len(stages) - stages[::-1].index("solve")
    assert until(last).status is Status.STOPPED
    assert stages[-1] == "solve"
    assert until(last).row_check is None


def test_success__is_converged():
    for status in Status:
        found = made_by_hand(status=status)
        assert found.success is found.converged is (status is Status.CONVERGED)


def test_costs__are_attributes_of_the_solution():
    found = made_by_hand()
    assert found.cost._asdict() == {name: getattr(found, name) for name in Cost._fields}


def test_error_estimate__is_the_largest_and_not_known_if_one_is_not():
    assert made_by_hand().error_estimate == 1.234e-7
    assert made_by_hand(error_estimates=np.array([1e-3, 1e-2, 1e-4])).error_estimate == 1e-2
    assert math.isnan(made_by_hand(error_estimates=np.array([1e-3, math.nan])).error_estimate)


def test_nit__counts_the_entries_of_the_history():
    assert made_by_hand().nit == 2
    found = rowsolve.solve(A, B, "randomized", rng=0)
    assert found.nit == len(found.history) == len(found.history.seconds) > 1


def test_repr__has_aligned_lines():
    assert repr(made_by_hand()).splitlines() == [
        "       message: The system is small: 'refined' found the least-squares solution.",
        "                The estimated error is within the tolerance.",
        "       success: True",
        "        status: Status.CONVERGED",
        "             x: [ 1.  -2.5]",
        "error_estimate: 1.23e-07",
        "      residual: 0.0123",
        "          rank: 2",
        "        method: refined",
        "        passes: 0.125",
        "       seconds: 0.02",
    ]


def test_repr__leaves_out_what_is_not_known():
    lines = repr(made_by_hand(rank=None, row_check=None, error_estimates=np.array([math.nan]), message="")).splitlines()
    names = [line.partition(":")[0].strip() for line in lines]
    assert names == ["message", "success", "status", "x", "error_estimate", "residual", "method", "passes", "seconds"]
    assert lines[4:6] == ["error_estimate: nan", "      residual: nan"]


@pytest.mark.parametrize("p", [1, 3, 6, 7, 100_000])
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e200, math.nan])
@pytest.mark.parametrize("k", [None, 1, 2, 20])
def test_repr__is_short(p, scale, k):
    x = scale * np.random.default_rng(0).standard_normal(p if k is None else (p, k)) * np.logspace(-9, 9, k or p)
    text = repr(made_by_hand(x=x))
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 16


def test_repr__of_a_solve_has_its_message():
    found = rowsolve.solve(A, B)
    lines = repr(found).splitlines()
    assert len(lines) <= 14
    words = " ".join(line[16:] for line in lines[: lines.index("       success: True")])
    assert words == found.message


def test_repr_html__is_a_table_with_escaped_text():
    html = made_by_hand(message="<b> & so on", x=np.ones((2, 2)))._repr_html_()
    assert html.startswith("<table><tr><th")
    assert html.count("<tr>") == html.count("</tr>") == 10
    assert html.count("<td") == html.count("<th") == 10
    assert ">message</th>" in html
    assert ">&lt;b&gt; &amp; so on</td>" in html
    assert ">[[1. 1.]\n [1. 1.]]</td>" in html  # with white-space: pre-wrap


def test_solutions__are_equal_if_all_fields_are():
    assert made_by_hand() == made_by_hand()
    assert {each.name for each in fields(Solution)} == OTHERS.keys()
    for name, value in OTHERS.items():
        other = replace(made_by_hand(), **{name: value})
        assert other != made_by_hand(), name
        assert other == pickle.loads(pickle.dumps(other)), name  # where NaN is another object
    assert made_by_hand() != "a solution"
    assert rowsolve.solve(A, B) != rowsolve.solve(A, B)  # they took different times


def test_solutions__cannot_be_hashed():
    for each in (made_by_hand(), History(), RowCheck(0.0, 0.0, 1, 1, full=True)):
        with pytest.raises(TypeError, match="unhashable type"):
            hash(each)


def test_histories_and_checks_of_rows__are_equal_by_value():
    nan = float("nan")  # not the one of `math`
    assert RowCheck(nan, nan, 5, 5, full=True) == RowCheck(math.nan, math.nan, 5, 5, full=True)
    assert RowCheck(1.0, 1.0, 5, 5, full=True) != RowCheck(1.0, 1.0, 5, 5, full=True, gradient=0.0)
    one, other = History(), History()
    one.add("block", 1, 0.5, nan, 0.1)
    assert one != other
    other.add("block", 1, 0.5, math.nan, 0.1)
    assert one == other
    other.drop[0] = 1.0
    assert one != other
    assert one != one.drop


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda solution: pickle.loads(pickle.dumps(solution)),
    "oldest pickle": lambda solution: pickle.loads(pickle.dumps(solution, 0)),
    "replace": replace,
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("n_sides", [None, 1, 2])
def test_copies__are_equal_before_the_message_is_read_and_after(how, n_sides):
    A, b, _ = gaussian(300, 4, noise=0.01)
    b[7] += 100.0
    b = b if n_sides is None else np.column_stack([b] * n_sides)
    found = rowsolve.solve(A, b)
    kept = COPIES[how](found)
    assert kept == found
    assert isinstance(kept.message, str)
    assert kept.message == found.message
    assert n_sides == 2 or "look like outliers" in kept.message
    assert COPIES[how](found) == COPIES[how](kept) == found


def test_copies__of_a_deep_kind_share_nothing():
    found = rowsolve.solve(A, B)
    kept = copy.deepcopy(found)
    kept.x[:] = 0.0
    kept.history.rows_read.clear()
    assert found.x.all()
    assert found.nit == 1


def test_a_pickle__is_read_by_a_new_process():
    found = rowsolve.solve(A, B)
    code = "import pickle, sys; sys.stdout.write(pickle.load(sys.stdin.buffer).message)"
    read = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(found), capture_output=True, check=True)
    assert read.stdout.decode() == found.message


def test_class__can_be_looked_at():
    import inspect

    assert {"message", "residual", "success", "nit"} <= {name for name, _ in inspect.getmembers(Solution)}


def test_dir__lists_public_names_and_imports_nothing():
    code = """
import rowsolve, sys
before = set(sys.modules)
names = dir(rowsolve)
assert set(sys.modules) == before and "numba" not in before and "numpy" not in before
public = [name for name in names if not name.startswith("__")]
assert set(public) == {*rowsolve.__all__, "testing", "theory"}, public
assert all(name.endswith("__") for name in set(names) - set(public)) and "__version__" in names
for name in public:
    getattr(rowsolve, name)
assert dir(rowsolve) == names
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_theory__needs_no_import_of_its_own():
    code = "import rowsolve; assert rowsolve.theory.orthogonality_value([[1.0, 0.0], [3.0, 4.0]]) == 0.6"
    subprocess.run([sys.executable, "-c", code], check=True)
