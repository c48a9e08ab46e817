"""The decisions of `auto`, and its messages."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import gaussian, relative_error
from scipy import sparse

import rowsolve
from rowsolve import Status

pytestmark = pytest.mark.compiled  # sizes at which the decisions differ


def stages(solution):
    """Return the methods in the order they ran."""
    names = solution.history.method
    return [name for name, before in zip(names, [None, *names], strict=False) if name != before]


def ill_conditioned(n, p, condition, seed=0, noise=0.0):
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((p, p)))[0]
    A = rng.standard_normal((n, p)) * np.geomspace(1, 1 / condition, p) @ V
    x = rng.standard_normal(p)
    b = A @ x
    b += noise * np.std(b) * rng.standard_normal(n)
    return A, b, x


def test_well_conditioned_rows__are_taken_at_random():
    A, b, x_true = gaussian(12_000, 600)
    solution = rowsolve.solve(A, b, rng=0)
    assert stages(solution) == ["randomized"]
    assert relative_error(solution.x, x_true) < 2e-6
    assert solution.passes < 3


def test_ill_conditioned_rows__are_solved_from_a_sample():
    A, b, x_true = ill_conditioned(12_000, 600, 1e3)
    solution = rowsolve.solve(A, b, rng=0)
    assert stages(solution) == ["randomized", "direct"]
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, x_true) < 1e-6
    assert "The error decreased slowly, so A is ill-conditioned: 'direct' solved a sample" in solution.message
    assert solution.passes < 2


@pytest.mark.parametrize(("condition", "last"), [(1.0, ["randomized", "refined"]), (1e3, ["direct", "refined"])])
@pytest.mark.parametrize("noise", [1e-3, 0.1])
def test_noise__leads_to_the_least_squares_solution(condition, last, noise):
    A, b, _ = ill_conditioned(12_000, 600, condition, noise=noise)
    solution = rowsolve.solve(A, b, rng=0)
    assert stages(solution)[-2:] == last
    assert solution.status is Status.CONVERGED
    error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
    assert error < 2e-6
    assert error / 3 < solution.error_estimate < 10 * error or error < 1e-10
    assert "'refined' computed the least-squares solution" in solution.message


def test_noise__is_detected_early_and_the_x_of_random_rows_is_kept():
    A, b, _ = ill_conditioned(30_000, 600, 1.0, noise=0.01)
    solution = rowsolve.solve(A, b, rng=0)
    first = solution.history.method.index("refined")
    assert solution.history.rows_read[first - 1] < 24 * 600
    assert solution.history.error_estimate[first] < 0.05  # that of noise in one row, not 1
    assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < 2e-6
    assert len(solution.history) - first < 7


def test_x_with_a_large_residual__is_not_kept():
    A, b, _ = gaussian(12_000, 600)
    b = np.random.default_rng(3).standard_t(1.2, 12_000)  # has nothing to do with A
    solution = rowsolve.solve(A, b, rng=0)
    error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
    assert solution.status is Status.CONVERGED
    assert error < 2e-6
    assert error / 3 < solution.error_estimate < 10 * error


def clustered(separation, seed=0):
    rng = np.random.default_rng(seed)
    A = separation * rng.standard_normal((4, 600))[rng.integers(0, 4, 9_000)] + 0.1 * rng.standard_normal((9_000, 600))
    return A, rng.standard_normal(600)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("separation", [1.0, 10.0])
def test_tight_clusters__are_solved_without_their_common_directions(separation, seed):
    A, x_true = clustered(separation, seed)
    solution = rowsolve.solve(A, A @ x_true, rng=seed)
    error = relative_error(solution.x, x_true)
    assert stages(solution) == ["randomized", "deflated"]
    assert solution.status is Status.CONVERGED
    assert error < 2e-6
    assert error / 3 < solution.error_estimate < 10 * error
    assert solution.passes < 4
    assert "because rows are nearly parallel: 'deflated' projected" in solution.message


def test_clusters__with_small_singular_values_are_solved_from_a_sample():
    A, x_true = clustered(1.0)
    V = np.linalg.qr(np.random.default_rng(1).standard_normal((600, 600)))[0]
    A = (A @ V) * np.append(np.ones(595), np.full(5, 1e-3))
    solution = rowsolve.solve(A, A @ x_true, rng=0)
    assert stages(solution) == ["randomized", "deflated", "direct"]
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, x_true) < 1e-6


def test_clusters__within_bounds_or_with_several_right_hand_sides_need_another_method():
    A, x_true = clustered(1.0)
    bounded = rowsolve.solve(A, A @ x_true, bounds=(-9.0, 9.0), rng=0)
    several = rowsolve.solve(A, A @ np.stack([x_true, x_true[::-1]], axis=1), rng=0)
    for solution in (bounded, several):
        assert "deflated" not in stages(solution)
        assert solution.status is Status.CONVERGED
    assert relative_error(bounded.x, x_true) < 2e-6
    assert relative_error(several.x[:, 1], x_true[::-1]) < 2e-6


@pytest.mark.parametrize(
    ("separation", "on_the_way"), [(0.1, ["randomized"]), (1.0, ["randomized", "deflated"]), (10.0, ["randomized"])]
)
def test_noisy_clusters__need_no_factor(separation, on_the_way):
    A, x_true = clustered(separation)
    b = A @ x_true
    b += 0.05 * np.std(b) * np.random.default_rng(1).standard_normal(9_000)
    solution = rowsolve.solve(A, b, rng=0)
    error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
    assert stages(solution) == [*on_the_way, "refined"]
    assert solution.status is Status.CONVERGED
    assert error < 2e-6
    assert error / 3 < solution.error_estimate < 10 * error
    assert solution.rank is None  # which a factor would have told
    assert solution.passes < 22


@pytest.mark.parametrize("n", [40, 200, 3000])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_small_systems__are_factored(n, noise):
    A, b, _ = gaussian(n, 30, noise=noise)
    solution = rowsolve.solve(A, b, rng=0)
    assert solution.status is Status.CONVERGED
    assert solution.method == "refined"
    assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < 1e-12
    assert solution.row_check.full or noise == 0.0
    assert solution.residual == pytest.approx(np.linalg.norm(b - A @ solution.x), abs=1e-14 * np.linalg.norm(b))


def test_short_sparse_rows__are_read_in_order():
    A = sparse.random_array((60_000, 3_000), density=0.001, rng=np.random.default_rng(0), format="csr")
    A += sparse.csr_array((np.ones(60_000), (np.arange(60_000), np.arange(60_000) % 3_000)), shape=A.shape)
    x_true = np.random.default_rng(1).standard_normal(3_000)
    solution = rowsolve.solve(A, A @ x_true, rng=0)
    assert stages(solution) == ["refined"]
    assert relative_error(solution.x, x_true) < 2e-6
    assert "Passes over all rows are cheaper here" in solution.message


def test_limits__hold_for_all_stages_together():
    A, b, _ = ill_conditioned(12_000, 600, 1e3, noise=0.1)
    solution = rowsolve.solve(A, b, max_passes=2, rng=0)
    assert solution.status is Status.MAX_PASSES
    assert solution.passes < 5


def test_zero_right_side__gives_zero_at_once():
    A, _, _ = gaussian(5000, 700)
    solution = rowsolve.solve(A, np.zeros(5000), rng=0)
    assert solution.status is Status.CONVERGED
    assert not solution.x.any()


def test_exactly_contradictory_rows__give_the_least_squares_solution():
    A, b, _ = gaussian(500, 8)
    doubled, both = np.vstack([A, A]), np.r_[b, b + 1.0]
    solution = rowsolve.solve(doubled, both, rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, np.linalg.lstsq(doubled, both)[0]) < 1e-8


@pytest.mark.parametrize(("n", "p"), [(500, 20), (3000, 40), (20_000, 200), (12_000, 600)])
@pytest.mark.parametrize(("share", "size"), [(0.02, 1.0), (0.1, 10.0), (0.002, 100.0)])
def test_outliers__are_left_out_and_listed(n, p, share, size):
    A, b, x_true = gaussian(n, p, seed=p)
    rng = np.random.default_rng(1)
    wild = np.sort(rng.choice(n, max(1, round(share * n)), replace=False))
    b[wild] = size * np.std(b) * (1.0 + rng.random(wild.size)) * rng.choice([-1, 1], wild.size)
    solution = rowsolve.solve(A, b, rng=0, outliers="drop")
    error = relative_error(solution.x, x_true)
    assert solution.status is Status.CONVERGED
    assert error < 2e-6
    assert error / 3 < solution.error_estimate < 10 * max(error, 1e-14)
    assert solution.method == "quantile"
    np.testing.assert_array_equal(solution.rows_off, wild)
    assert f"left out as outliers: {wild.size:,} row(s)" in solution.message


@pytest.mark.parametrize("freedom", [1.5, 3])
def test_noise_with_heavy_tails__still_gives_the_least_squares_solution(freedom):
    A, b, _ = gaussian(5000, 40)
    b += 0.1 * np.std(b) * np.random.default_rng(2).standard_t(freedom, 5000)
    solution = rowsolve.solve(A, b, rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < 2e-6
    assert solution.method == "refined"
    assert not solution.rows_off.size


def test_quantile__that_is_stopped_says_so_and_leaves_the_least_squares_solution():
    A, b, _ = gaussian(5000, 40)
    b[::50] += 100.0
    seen = []

    def stop(event):
        seen.append(event.rows_read)
        return len(seen) > 5

    full = rowsolve.solve(A, b, rng=0, outliers="drop")
    assert stages(full)[-1] == "quantile"
    n_before = full.history.method.index("quantile")
    assert n_before <= 5
    solution = rowsolve.solve(A, b, rng=0, callback=stop, outliers="drop")
    assert solution.status is Status.STOPPED
    assert "was stopped early" in solution.message
    assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < 1e-6


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("method", ["auto", "direct"])
def test_nearly_dependent_rows__do_not_give_a_false_solution(method, seed):
    rng = np.random.default_rng(seed)
    A = 1 / (5 * rng.random((1814, 1)) + np.linspace(0.3, 3, 21))
    b = A @ rng.standard_normal(21)
    solution = rowsolve.solve(A, b, method, rtol=1e-3, rng=seed)
    assert solution.status is not Status.CONVERGED or np.linalg.norm(A @ solution.x - b) <= 1e-9 * np.linalg.norm(b)
    assert solution.rank is None or solution.rank < 21


@pytest.mark.parametrize("shape", [(3, 2), (4, 2), (6, 5), (25, 20)])
def test_hardly_more_rows_than_columns__give_the_least_squares_solution_of_the_rows_as_they_are(shape):
    for seed in range(20):
        rng = np.random.default_rng([seed, *shape])
        A = rng.standard_normal(shape) * 10.0 ** rng.uniform(-1.5, 1.5, shape[1])
        b = A @ rng.standard_normal(shape[1]) + 10.0 ** rng.uniform(-6, 0) * rng.standard_normal(shape[0])
        solution = rowsolve.solve(A, b, rtol=1e-3, rng=seed)
        error = relative_error(solution.x, np.linalg.lstsq(A, b)[0])
        assert solution.status is Status.CONVERGED
        assert solution.method != "quantile"
        assert error <= 1e-9
        assert error <= 3 * solution.error_estimate + 1e-10  # of the reference


def test_quantile__has_a_small_limit_of_rows_for_a_tiny_system():
    rng = np.random.default_rng(0)
    for seed in range(10):
        U, V = np.linalg.qr(rng.standard_normal((50, 4)))[0], np.linalg.qr(rng.standard_normal((4, 4)))[0]
        A = (U * [1, 0.1, 0.01, 0.001]) @ V
        b = A @ rng.standard_normal(4) + 1e-6 * rng.standard_normal(50)
        b[rng.integers(50)] += 1e6
        assert rowsolve.solve(A, b, rng=seed, outliers="drop").rows_read < 200_000


def test_max_passes__are_not_overrun_by_a_pass_that_could_be_left_out():
    A, b, _ = gaussian(3000, 10)
    solution = rowsolve.solve(A, b + 0.1, max_passes=0.05, rng=0)
    assert solution.status is Status.MAX_PASSES
    assert solution.passes < 0.05 + 2 * 256 / 3000


def test_no_rows_at_all__have_rank_0():
    for A in (np.zeros((50, 5)), sparse.csr_array((50, 5))):
        for b in (np.zeros(50), np.ones(50)):
            solution = rowsolve.solve(A, b, rng=0, bounds=None)
            assert (solution.status, solution.rank) == (Status.CONVERGED, 0)
            assert not solution.x.any()


def zero_inflated(mean, rng):
    return np.where(rng.random(mean.size) < 0.7, 0.0, mean)


def rare_events(mean, rng):
    return (rng.random(mean.size) < 0.01).astype(float)


KINDS_OF_B = {
    "zero-inflated": zero_inflated,
    "censored": lambda mean, _: np.maximum(mean, np.quantile(mean, 0.7)),
    "rounded": lambda mean, _: np.round(mean / np.std(mean) / 3),
    "binary": lambda mean, _: (mean > np.quantile(mean, 0.9)).astype(float),
    "count": lambda mean, rng: rng.poisson(np.exp(mean / np.std(mean) - 3.0)).astype(float),
    "rare": rare_events,
    "heavy": lambda mean, rng: mean + rng.standard_cauchy(mean.size),
}
SIZES = [(300, 6), (3000, 20), (20_000, 60), (20_000, 300), (9_000, 600)]


@pytest.mark.parametrize(
    ("kind", "intercept", "n", "p"),
    [(kind, i % 2 == j % 2, *SIZES[(i + j) % 5]) for i, kind in enumerate(KINDS_OF_B) for j in range(3)],
)
def test_all_rows__count_unless_outliers_are_dropped(kind, intercept, n, p):
    """If most entries of b are equal, or some are outliers, x is still the least-squares solution."""
    rng = np.random.default_rng([n, p])
    A = rng.standard_normal((n, p))
    if intercept:
        A[:, 0] = 1.0
    b = KINDS_OF_B[kind](A @ rng.standard_normal(p), rng)
    x = np.linalg.lstsq(A, b)[0]
    solution = rowsolve.solve(A, b, rng=0)
    assert solution.status is Status.CONVERGED
    assert relative_error(solution.x, x) < 2e-6
    assert not solution.rows_off.size
    dropped = rowsolve.solve(A, b, rng=0, outliers="drop")
    if kind != "heavy":  # an x of zero or a constant fits most rows, and says nothing
        assert relative_error(dropped.x, x) < 2e-6


def test_outliers__that_could_be_dropped_are_mentioned():
    A, b, _ = gaussian(2000, 20)
    b[:30] += 100.0
    message = rowsolve.solve(A, b, rng=0).message
    assert "30 of 2,000 sampled rows look like outliers" in message.replace("2,000 rows", "2,000 sampled rows")
    assert "Try outliers='drop' for a solution without them." in message


def test_rows_with_unused_values_of_b__are_checked():
    """A sample whose b are all zero is solved by x = 0; so are nearly all other rows."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40_000, 60))
    b = np.zeros(40_000)
    b[rng.choice(40_000, 8, replace=False)] = 1.0
    solution = rowsolve.solve(A, b, rng=0)
    assert relative_error(solution.x, np.linalg.lstsq(A, b)[0]) < 2e-6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"outliers": "remove"}, "`outliers` must be 'keep' or 'drop', got 'remove'"),
        ({"outliers": "drop", "method": "direct"}, "requires method='auto', got 'direct'"),
        ({"outliers": "drop", "damp": 1.0}, "cannot be combined with `damp` or `bounds`"),
        ({"outliers": "drop", "bounds": (0, np.inf)}, "cannot be combined with `damp` or `bounds`"),
    ],
)
def test_outliers__are_dropped_only_where_that_can_be_done(options, words):
    A, b, _ = gaussian(50, 5)
    with pytest.raises(ValueError, match=words):
        rowsolve.solve(A, b, **options)
    with pytest.raises(ValueError, match="requires a single right-hand side"):
        rowsolve.solve(A, np.column_stack([b, b]), outliers="drop")
