"""The solvers that take part in a race, and those that are not installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from rowsolve import Method
from rowsolve.race.contestant import Contestant
from rowsolve.race.direct import Cholesky, LinearRegression, Lstsq
from rowsolve.race.iterative import LSMR, LSQR, SGD, Kaczmarz
from rowsolve.race.ours import Rowsolve

__all__ = ["PEERS", "line_up"]

PEERS: tuple[type[Contestant], ...] = (LSMR, LSQR, Cholesky, Lstsq, LinearRegression, SGD, Kaczmarz)


def line_up(
    methods: Sequence[str | Method] = (), threads: int | None = None, outliers: str = "keep"
) -> tuple[list[Contestant], dict[str, str]]:
    """Return ``rowsolve auto``, other `methods` of rowsolve (names or instances), and all other installed solvers.

    `outliers` is passed to ``rowsolve auto``.

    Returns
    -------
    contestants : list of Contestant
        The first one is the one with which the others are compared.
    absent : dict
        The solvers that do not take part, with the reason.
    """
    ours = [Rowsolve(outliers=outliers, threads=threads)]
    ours += [Rowsolve(method, threads) for method in dict.fromkeys(methods) if method != "auto"]
    peers = [peer() for peer in PEERS]
    absent = {
        peer.name: f"not installed (pip install {peer.package})" for peer in peers if find_spec(peer.library) is None
    }
    return [*ours, *(peer for peer in peers if peer.name not in absent)], absent
