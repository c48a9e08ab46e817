"""Who is in the race, and who is not because it is not installed."""

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
    """Return ``rowsolve auto``, `methods` of rowsolve (names or objects), all peers that are installed; and who is not.

    `outliers` is what ``rowsolve auto`` is told of them.

    Returns
    -------
    contestants : list of Contestant
        The first is the one that the others are compared with.
    absent : dict
        Name -> why it is not there.
    """
    ours = [Rowsolve(outliers=outliers, threads=threads)]
    ours += [Rowsolve(method, threads) for method in dict.fromkeys(methods) if method != "auto"]
    peers = [peer() for peer in PEERS]
    absent = {
        peer.name: f"not installed (pip install {peer.package})" for peer in peers if find_spec(peer.library) is None
    }
    return [*ours, *(peer for peer in peers if peer.name not in absent)], absent
