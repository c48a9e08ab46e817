"""The registry of methods: a new one is a file here and a line in `METHODS`.

`base` has the contract, `drawing` what rows are drawn from, `oblivious` what methods share that can run in chains;
every other file is a method.

May import: `_solution`, `checkpoint`, `estimate`, `kernels`, `lstsq`, `parallel`, `partition`,
`policy.least_squares`, `policy.prices`, `policy.thresholds`, `problem`.
"""

from __future__ import annotations

from rowsolve.methods.accelerated_block import AcceleratedBlock
from rowsolve.methods.base import Method
from rowsolve.methods.block import Block
from rowsolve.methods.cluster_block import ClusterBlock
from rowsolve.methods.cluster_jl import ClusterJL
from rowsolve.methods.cyclic import Cyclic
from rowsolve.methods.deflated import Deflated
from rowsolve.methods.direct import Direct
from rowsolve.methods.extended import Extended
from rowsolve.methods.greedy import Greedy
from rowsolve.methods.jl import JL
from rowsolve.methods.paving import Paving
from rowsolve.methods.quantile import Quantile
from rowsolve.methods.randomized import Randomized
from rowsolve.methods.refined import Refined
from rowsolve.methods.tail_average import TailAverage

__all__ = [
    "JL",
    "METHODS",
    "AcceleratedBlock",
    "Block",
    "ClusterBlock",
    "ClusterJL",
    "Cyclic",
    "Deflated",
    "Direct",
    "Extended",
    "Greedy",
    "Method",
    "Paving",
    "Quantile",
    "Randomized",
    "Refined",
    "TailAverage",
]

_ALL: tuple[type[Method], ...] = (
    Cyclic, Randomized, JL, Block, ClusterJL, ClusterBlock, Paving, AcceleratedBlock, Deflated, Extended, TailAverage,
    Greedy, Quantile, Direct, Refined,
)  # fmt: skip
METHODS: dict[str, type[Method]] = {method.name: method for method in _ALL}
