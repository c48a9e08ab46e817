"""The linear regressions of NIST's Statistical Reference Datasets, whose solutions are certified to 15 digits.

Data and certified values: National Institute of Standards and Technology, https://www.itl.nist.gov/div898/strd/lls/lls.shtml.
The first test solves each set in rational numbers, which proves that the data are typed in as they are there.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from conftest import relative_error
from scipy import linalg

import rowsolve
from rowsolve import Status

NORRIS = """
0.1 0.2 338.8 337.4 118.1 118.2 888.0 884.6 9.2 10.1 228.1 226.5 668.5 666.3 998.5 996.3 449.1 448.6 778.9 777.0
559.2 558.2 0.3 0.4 0.1 0.6 778.1 775.5 668.8 666.9 339.3 338.0 448.9 447.5 10.8 11.6 557.7 556.0 228.3 228.1
998.0 995.8 888.8 887.6 119.6 120.2 0.3 0.3 0.6 0.3 557.6 556.8 339.3 339.1 888.0 887.2 998.5 999.0 778.9 779.0
10.2 11.1 117.6 118.3 228.9 229.2 668.4 669.1 449.2 448.9 0.2 0.5
"""  # y x
PONTIUS = """
.11019 .21956 .32949 .43899 .54803 .65694 .76562 .87487 .98292 1.09146 1.20001 1.30822 1.41599 1.52399 1.63194 1.73947
1.84646 1.95392 2.06128 2.16844 .11052 .22018 .32939 .43886 .54798 .65739 .76596 .87474 .98300 1.09150 1.20004 1.30818
1.41613 1.52408 1.63159 1.73965 1.84696 1.95445 2.06177 2.16829
"""  # y; x are twice 150,000, 300,000, …
FILIP = """
0.8116 -6.860120914 0.9072 -4.324130045 0.9052 -4.358625055 0.9039 -4.358426747 0.8053 -6.955852379 0.8377 -6.661145254
0.8667 -6.355462942 0.8809 -6.118102026 0.7975 -7.115148017 0.8162 -6.815308569 0.8515 -6.519993057 0.8766 -6.204119983
0.8885 -5.853871964 0.8859 -6.109523091 0.8959 -5.79832982 0.8913 -5.482672118 0.8959 -5.171791386 0.8971 -4.851705903
0.9021 -4.517126416 0.909 -4.143573228 0.9139 -3.709075441 0.9199 -3.499489089 0.8692 -6.300769497 0.8872 -5.953504836
0.89 -5.642065153 0.891 -5.031376979 0.8977 -4.680685696 0.9035 -4.329846955 0.9078 -3.928486195 0.7675 -8.56735134
0.7705 -8.363211311 0.7713 -8.107682739 0.7736 -7.823908741 0.7775 -7.522878745 0.7841 -7.218819279 0.7971 -6.920818754
0.8329 -6.628932138 0.8641 -6.323946875 0.8804 -5.991399828 0.7668 -8.781464495 0.7633 -8.663140179 0.7678 -8.473531488
0.7697 -8.247337057 0.77 -7.971428747 0.7749 -7.676129393 0.7796 -7.352812702 0.7897 -7.072065318 0.8131 -6.774174009
0.8498 -6.478861916 0.8741 -6.159517513 0.8061 -6.835647144 0.846 -6.53165267 0.8751 -6.224098421 0.8856 -5.910094889
0.8919 -5.598599459 0.8934 -5.290645224 0.894 -4.974284616 0.8957 -4.64454848 0.9047 -4.290560426 0.9129 -3.885055584
0.9209 -3.408378962 0.9219 -3.13200249 0.7739 -8.726767166 0.7681 -8.66695597 0.7665 -8.511026475 0.7703 -8.165388579
0.7702 -7.886056648 0.7761 -7.588043762 0.7809 -7.283412422 0.7961 -6.995678626 0.8253 -6.691862621 0.8602 -6.392544977
0.8809 -6.067374056 0.8301 -6.684029655 0.8664 -6.378719832 0.8834 -6.065855188 0.8898 -5.752272167 0.8964 -5.132414673
0.8963 -4.811352704 0.9074 -4.098269308 0.9119 -3.66174277 0.9228 -3.2644011
"""  # y x
LONGLEY = """
60323 83.0 234289 2356 1590 107608 1947
61122 88.5 259426 2325 1456 108632 1948
60171 88.2 258054 3682 1616 109773 1949
61187 89.5 284599 3351 1650 110929 1950
63221 96.2 328975 2099 3099 112075 1951
63639 98.1 346999 1932 3594 113270 1952
64989 99.0 365385 1870 3547 115094 1953
63761 100.0 363112 3578 3350 116219 1954
66019 101.2 397469 2904 3048 117388 1955
67857 104.6 419180 2822 2857 118734 1956
68169 108.4 442769 2936 2798 120445 1957
66513 110.8 444546 4681 2637 121950 1958
68655 112.6 482704 3813 2552 123366 1959
69564 114.2 502601 3931 2514 125368 1960
69331 115.7 518173 4806 2572 127852 1961
70551 116.9 554894 4007 2827 130081 1962
"""  # y x1 … x6
WAMPLER_NOISE = [759, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048, 2048]  # and back again


class Dataset(NamedTuple):
    """A and b in rational numbers, and the certified solution."""

    A: list[list[Fraction]]
    b: list[Fraction]
    certified: list[float]

    def floats(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.A, dtype=float), np.array(self.b, dtype=float)


def polynomial(x: list[Fraction], y: list[Fraction], degree: int, certified: list[float]) -> Dataset:
    return Dataset([[Fraction(t) ** k for k in range(degree + 1)] for t in x], y, certified)


def pairs(text: str) -> tuple[list[Fraction], list[Fraction]]:
    """Return x and y from a text with y before x."""
    numbers = [Fraction(word) for word in text.split()]
    return numbers[1::2], numbers[::2]


def wampler(base: str, noise: int) -> Dataset:
    x = [Fraction(t) for t in range(21)]
    truth = [Fraction(base) ** k for k in range(6)]
    mirrored = [*WAMPLER_NOISE, *WAMPLER_NOISE[-2::-1]]
    y = [sum(c * t**k for k, c in enumerate(truth)) + noise * e for t, e in zip(x, mirrored, strict=True)]
    return polynomial(x, y, 5, [float(c) for c in truth])


def longley() -> Dataset:
    rows = [[Fraction(word) for word in line.split()] for line in LONGLEY.strip().splitlines()]
    certified = [
        -3482258.63459582, 15.0618722713733, -0.0358191792925910, -2.02022980381683, -1.03322686717359,
        -0.0511041056535807, 1829.15146461355,
    ]  # fmt: skip
    return Dataset([[Fraction(1), *row[1:]] for row in rows], [row[0] for row in rows], certified)


DATASETS = {
    "Norris": polynomial(*pairs(NORRIS), 1, [-0.262323073774029, 1.00211681802045]),
    "Pontius": polynomial(
        [Fraction(150_000 * (i % 20 + 1)) for i in range(40)], [Fraction(word) for word in PONTIUS.split()], 2,
        [0.673565789473684e-03, 0.732059160401003e-06, -0.316081871345029e-14],
    ),
    "NoInt1": Dataset(
        [[Fraction(t)] for t in range(60, 71)], [Fraction(t) for t in range(130, 141)], [2.07438016528926]
    ),
    "NoInt2": Dataset([[Fraction(t)] for t in (4, 5, 6)], [Fraction(t) for t in (3, 4, 4)], [0.727272727272727]),
    "Filip": polynomial(
        *pairs(FILIP), 10,
        [
            -1467.48961422980, -2772.17959193342, -2316.37108160893, -1127.97394098372, -354.478233703349,
            -75.1242017393757, -10.8753180355343, -1.06221498588947, -0.670191154593408e-01, -0.246781078275479e-02,
            -0.402962525080404e-04,
        ],
    ),
    "Longley": longley(),
    "Wampler1": wampler("1", 0),
    "Wampler2": wampler("0.1", 0),
    "Wampler3": wampler("1", 1),
    "Wampler4": wampler("1", 100),
    "Wampler5": wampler("1", 10_000),
}  # fmt: skip


def exact_solution(A: list[list[Fraction]], b: list[Fraction]) -> list[Fraction]:
    """Solve the normal equations by elimination in rational numbers."""
    columns = list(zip(*A, strict=True))
    rows = [[sum(s * t for s, t in zip(one, other, strict=True)) for other in (*columns, b)] for one in columns]
    for i, pivot in enumerate(rows):
        for j, row in enumerate(rows):
            if i != j:
                factor = row[i] / pivot[i]
                rows[j] = [s - factor * t for s, t in zip(row, pivot, strict=True)]
    return [row[-1] / row[i] for i, row in enumerate(rows)]


@pytest.mark.parametrize("name", DATASETS)
def test_data__are_those_whose_solution_is_certified(name):
    data = DATASETS[name]
    exact = [float(value) for value in exact_solution(data.A, data.b)]
    np.testing.assert_allclose(exact, data.certified, rtol=2e-14)


def correct_digits(x: np.ndarray, certified: list[float]) -> float:
    """Return the correct digits of the worst coefficient, as NIST counts them: at most 15."""
    return float(-np.log10(np.clip(np.abs(x / certified - 1.0).max(), 1e-15, 1.0)))


@pytest.mark.parametrize("rtol", [1e-6, 1e-10])
@pytest.mark.parametrize("name", DATASETS)
def test_solution__meets_the_tolerance_or_says_that_it_does_not(name, rtol):
    data = DATASETS[name]
    A, b = data.floats()
    solution = rowsolve.solve(A, b, rtol=rtol, rng=0)
    error = relative_error(solution.x, np.array(data.certified))
    if solution.status is Status.CONVERGED:
        assert error <= 5 * rtol
    else:
        assert solution.status is Status.PRECISION
        by_lapack = linalg.lstsq(A, b, lapack_driver="gelsy")[0]
        as_good = correct_digits(solution.x, data.certified) >= correct_digits(by_lapack, data.certified) - 1
        assert as_good or solution.error_estimate >= error / 3
