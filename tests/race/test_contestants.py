"""Each solver on a system with a known solution; solvers that are not installed are skipped."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from conftest import gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve.race import direct, iterative, lineup
from rowsolve.race.contestant import TimeIsUp
from rowsolve.race.direct import Cholesky, LinearRegression, Lstsq
from rowsolve.race.iterative import LSMR, LSQR, SGD, CountedProducts, Kaczmarz
from rowsolve.race.lineup import PEERS, line_up
from rowsolve.race.ours import Rowsolve
from rowsolve.race.problem import Problem, known
from rowsolve.race.running import Rules, run_race

A, b, X = gaussian(400, 6)
HERE = [peer for peer in PEERS if find_spec(peer.library)]
SPARSE = [peer for peer in HERE if not peer().refusal(sparse.csr_array(A))]


@pytest.mark.parametrize("peer", [Rowsolve, *HERE], ids=lambda peer: peer.__name__)
def test_every_solver__reaches_the_solution(peer):
    (found,) = run_race(Problem(A, b, known(X)), [peer()], Rules(repeats=1, limit=20.0))
    assert found.verdict == "reached", found.why
    assert found.error <= 1e-6
    assert found.name == peer().name


@pytest.mark.parametrize("peer", [Rowsolve, *SPARSE], ids=lambda peer: peer.__name__)
def test_solvers_for_sparse_matrices__reach_the_solution(peer):
    matrix = sparse.csr_array(np.where(np.abs(A) > 0.3, A, 0.0))
    (found,) = run_race(Problem(matrix, matrix @ X, known(X)), [peer()], Rules(repeats=1, limit=20.0))
    assert found.verdict == "reached", found.why


def test_sparse_and_mapped_matrices__are_skipped_by_solvers_without_support(tmp_path):
    np.save(tmp_path / "A.npy", A)
    mapped, thin = np.load(tmp_path / "A.npy", mmap_mode="r"), sparse.csr_array(A)
    refused = {peer.name: (peer().refusal(thin), peer().refusal(mapped)) for peer in PEERS}
    assert {name: why for name, why in refused.items() if any(why)} == {
        "numpy lstsq": ("does not support sparse matrices", "would copy the file into memory"),
        "sklearn LinearRegression": (
            "uses scipy lsqr for sparse matrices, which is timed separately", "would copy the file into memory",
        ),
        "kaczmarz-algorithms": ("", "would copy the file into memory"),
    }  # fmt: skip


def test_tolerances__fall_tenfold_from_the_asked_error():
    tolerances = list(LSMR().settings(A, 1e-6))
    np.testing.assert_allclose(tolerances, 10.0 ** -np.arange(6.0, 16.0))  # to the rounding unit
    assert list(Lstsq().settings(A, 1e-6)) == [0.0]
    assert next(LinearRegression().settings(A, 1e-2)) == 1e-6  # its own, which cuts off singular values


def test_amounts_of_work__grow_by_half():
    assert [setting for setting, _ in zip(SGD().settings(A, 1e-6), range(6), strict=False)] == [1, 2, 3, 5, 8, 12]
    steps = Kaczmarz().settings(A, np.exp(-10.0))
    assert [next(steps), next(steps)] == [120, 180]


@pytest.mark.parametrize("peer", [LSMR, LSQR])
def test_lsqr_and_lsmr__count_their_passes_and_stop_in_time(peer):
    finish = peer().run(A, b, 1e-8, 60.0)
    iterations = int(finish.status.split()[-2])
    assert finish.passes == 2 * iterations + 1
    with pytest.raises(TimeIsUp):
        peer().run(A, b, 1e-8, -1.0)


def test_counted_products__are_those_of_a():
    products = CountedProducts(A, 60.0)
    np.testing.assert_array_equal(products.operator.matvec(X), A @ X)
    np.testing.assert_array_equal(products.operator.rmatvec(b), A.T @ b)
    assert products.passes == 2


def test_normal_equations__raise_where_they_break_down():
    singular = np.column_stack([A, A[:, 0]])
    (found,) = run_race(Problem(singular, b, known(np.r_[X, 0.0])), [Cholesky()], Rules())
    assert found.verdict == "never"
    assert found.why.startswith(("raised LinAlgError", "there is no tighter setting"))


def test_predictions__grow_as_the_work_does(monkeypatch):
    monkeypatch.setattr(direct, "seconds_for_flops", lambda flops: 1e-9 * flops)
    large = np.lib.stride_tricks.as_strided(np.zeros(1), (40_000, 4_000), (0, 0))
    assert Lstsq().expected_seconds(large) == pytest.approx(2 * 640 + 768)
    assert Cholesky().expected_seconds(large) == pytest.approx(640 + 64 / 3)
    assert Cholesky().expected_bytes(large) == 128e6
    assert Lstsq().expected_bytes(large) == pytest.approx(1.2 * 1.28e9 + 384e6)
    thin = sparse.csr_array(np.eye(1000, 10))
    assert Cholesky().expected_seconds(thin) < 1e-5


def test_squared_norms__of_rows():
    for matrix in (A, sparse.csr_array(A)):
        np.testing.assert_allclose(iterative.squared_norms(matrix), np.linalg.norm(A, axis=1) ** 2)


def test_line_up__starts_with_auto_and_lists_missing_packages(monkeypatch):
    monkeypatch.setattr(lineup, "find_spec", lambda name: None if name in ("sklearn", "kaczmarz") else object())
    contestants, absent = line_up(("block", "auto"), threads=2)
    assert [one.name for one in contestants] == [
        "rowsolve auto", "rowsolve block", "scipy lsmr", "scipy lsqr", "normal equations", "numpy lstsq",
    ]  # fmt: skip
    assert absent == {
        "sklearn LinearRegression": "not installed (pip install scikit-learn)",
        "sklearn SGDRegressor": "not installed (pip install scikit-learn)",
        "kaczmarz-algorithms": "not installed (pip install kaczmarz-algorithms)",
    }


def test_rowsolve__is_stopped_in_time_and_says_what_it_did():
    finish = Rowsolve("cyclic").run(A, b, 1e-6, 60.0)
    assert finish.status == "CONVERGED (cyclic)"
    assert relative_error(finish.x, X) < 1e-5
    assert finish.passes == pytest.approx(rowsolve.solve(A, b, "cyclic", rtol=1e-6, rng=0).passes)
    assert Rowsolve().run(A, b, 1e-12, -1.0).status.startswith("STOPPED")


def test_rowsolve__raises_keyboard_interrupt(monkeypatch):
    solution = rowsolve.solve(A, b, rng=0)
    stopped = type("Stopped", (), {**vars(solution), "status": rowsolve.Status.INTERRUPTED})
    monkeypatch.setattr(rowsolve, "solve", lambda *_, **__: stopped)
    with pytest.raises(KeyboardInterrupt):
        Rowsolve().run(A, b, 1e-6, 60.0)
