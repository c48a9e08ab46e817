"""What the compiler is told instruction by instruction: the inner loops over a few rows at a time, in vector registers.

The compiler vectorises plain loops well, but only as long as nothing else is in them. The sweep and the pass need one
more thing: to ask for rows ahead of time, a cache line of them for each line they work on. Else a random row comes from
memory at half speed, because the processor notices that a row is being read only when much of it has gone by; and in a
pass over rows in order memory rests while they are used for the second time.

Written with LLVM's portable vectors and hints, so it runs wherever Numba does.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

__all__ = [
    "add_four_vectors",
    "count_bits",
    "measure_four_vectors",
    "measure_vectors",
    "move_and_measure_vectors",
    "whole_vectors",
]

_LINE = 64  # bytes
_WIDTH = 4  # float64 in a vector: as many as the registers of most processors hold
_FLAGS = ("reassoc", "contract", "arcp", "nsz")
_DOUBLE, _INDEX, _INT = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_DOUBLE, _WIDTH)
_BYTES = ir.IntType(8).as_pointer()
_ZERO = ir.Constant(_VECTOR, [ir.Constant(_DOUBLE, 0.0)] * _WIDTH)
_NEAR = 2  # fetch into the second cache: the first is full of what is worked on


def whole_vectors(values: Any, n: int) -> int:
    """Return how many of `n` columns the functions below can take: none if Numba is switched off."""
    return 0


def move_and_measure_vectors(values: Any, places: Any, x: Any, z: Any, steps: Any, n: int) -> tuple[float, ...]:
    """Add two rows to x and to z, and measure two others by the result, in the first `n` columns.

    `places` holds two rows to add, two to measure and two to fetch for later. `steps` holds the factors of the first
    two for x, then for z. Returns, of the rows measured, both squared norms, their product, their products with x, then
    with z.
    """
    return (0.0,) * 7


def measure_vectors(values: Any, places: Any, x: Any, z: Any, n: int) -> tuple[float, ...]:
    """Measure two rows without moving x and z; `places` holds these two and two to fetch for later."""
    return (0.0,) * 7


def measure_four_vectors(values: Any, places: Any, x: Any, z: Any, n: int) -> tuple[float, ...]:
    """Return the products of four rows with x and with z, row by row; `places` holds these and two to fetch."""
    return (0.0,) * 8


def add_four_vectors(values: Any, places: Any, steps: Any, g: Any, h: Any, n: int) -> None:
    """Add four rows to g and to h; `steps` holds the factors of each row for both, `places` also two to fetch."""


def count_bits(word: Any) -> int:
    """Return how many bits of an unsigned `word` are set: one instruction, where there is one."""
    return int(word).bit_count()


@overload(count_bits)
def _count_bits(word):
    def form(word):
        return _bits_set(word)  # type: ignore[call-arg]

    return form


@intrinsic
def _bits_set(_, word):
    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@overload(whole_vectors)
def _whole_vectors(values, n):
    contiguous = values.layout == "C"
    return lambda values, n: n // _WIDTH * _WIDTH if contiguous else 0


@overload(move_and_measure_vectors)
def _move_and_measure_vectors(values, places, x, z, steps, n):
    def form(values, places, x, z, steps, n):
        return _vectors(values, places, x, z, steps, n)  # type: ignore[call-arg]

    return form


@overload(measure_vectors)
def _measure_vectors(values, places, x, z, n):
    def form(values, places, x, z, n):
        return _vectors(values, places, x, z, (), n)  # type: ignore[call-arg]

    return form


@overload(measure_four_vectors)
def _measure_four_vectors(values, places, x, z, n):
    def form(values, places, x, z, n):
        return _four_products(values, places, x, z, n)  # type: ignore[call-arg]

    return form


@overload(add_four_vectors)
def _add_four_vectors(values, places, steps, g, h, n):
    def form(values, places, steps, g, h, n):
        _four_added(values, places, steps, g, h, n)  # type: ignore[call-arg]

    return form


@intrinsic
def _four_products(_, values, places, x, z, n):
    return types.UniTuple(types.float64, 8)(values, places, x, z, n), _generate_products


@intrinsic
def _four_added(_, values, places, steps, g, h, n):
    return types.void(values, places, steps, g, h, n), _generate_sums


@intrinsic
def _vectors(_, values, places, x, z, steps, n):
    signature = types.UniTuple(types.float64, 7)(values, places, x, z, steps, n)
    return signature, _generate


class _Rows:
    """Emits loads of rows as vectors of float64, whatever they are stored as."""

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Any, places: Any) -> None:
        self.builder, self.single = builder, array_type.dtype == types.float32
        self.per_line = _LINE // (4 if self.single else 8)
        parts = context.make_array(array_type)(context, builder, array)
        self.starts = [
            cgutils.get_item_pointer(context, builder, array_type, parts, [place, _INDEX(0)], wraparound=False)
            for place in cgutils.unpack_tuple(builder, places)
        ]

    def load(self, which: int, j: Any) -> Any:
        kind = ir.VectorType(ir.FloatType(), _WIDTH) if self.single else _VECTOR
        place = self.builder.bitcast(self.builder.gep(self.starts[which], [j]), kind.as_pointer())
        vector = self.builder.load(place, align=4 if self.single else 8)
        return self.builder.fpext(vector, _VECTOR) if self.single else vector

    def fetch(self, which: int, j: Any) -> None:
        kind = ir.FunctionType(ir.VoidType(), [_BYTES, _INT, _INT, _INT])
        hint = self.builder.module.declare_intrinsic("llvm.prefetch", [_BYTES], kind)
        place = self.builder.bitcast(self.builder.gep(self.starts[which], [j]), _BYTES)
        self.builder.call(hint, [place, _INT(0), _INT(_NEAR), _INT(1)])


def _generate(context, builder, signature, arguments):
    """Emit the loops with seven running sums.

    Without steps there is nothing to add, and the first two rows are those to measure.
    """
    rows = _Rows(context, builder, signature.args[0], arguments[0], arguments[1])
    x, z = _places_of(context, builder, signature, arguments, (2, 3))
    steps = [_spread(builder, step) for step in cgutils.unpack_tuple(builder, arguments[4])]

    def vector(j, sums):
        return _one_vector(builder, rows, j, x, z, steps, sums)

    sums = _over_columns(builder, rows, arguments[5], [_ZERO] * 7, vector)
    return cgutils.pack_array(builder, [_sum(builder, total) for total in sums])


def _generate_products(context, builder, signature, arguments):
    rows = _Rows(context, builder, signature.args[0], arguments[0], arguments[1])
    iterates = _places_of(context, builder, signature, arguments, (2, 3))

    def vector(j, sums):
        here = [builder.load(_at(builder, iterate, j), align=8) for iterate in iterates]
        factors = [(rows.load(which, j), one) for which in range(4) for one in here]
        return [_add_product(builder, total, a, b) for total, (a, b) in zip(sums, factors, strict=True)]

    sums = _over_columns(builder, rows, arguments[4], [_ZERO] * 8, vector)
    return cgutils.pack_array(builder, [_sum(builder, total) for total in sums])


def _generate_sums(context, builder, signature, arguments):
    rows = _Rows(context, builder, signature.args[0], arguments[0], arguments[1])
    steps = [_spread(builder, step) for step in cgutils.unpack_tuple(builder, arguments[2])]
    outs = _places_of(context, builder, signature, arguments, (3, 4))

    def vector(j, sums):
        four = [rows.load(which, j) for which in range(4)]
        for c, out in enumerate(outs):
            place = _at(builder, out, j)
            total = builder.load(place, align=8)
            for which, row in enumerate(four):
                total = _add_product(builder, total, steps[2 * which + c], row)
            builder.store(total, place, align=8)
        return sums

    _over_columns(builder, rows, arguments[5], [], vector)
    return context.get_dummy_value()


def _over_columns(builder, rows, n, sums, vector):
    """Emit two loops: over whole cache lines, which fetch the last two rows, then over what is left of the vectors."""
    in_lines = builder.sub(n, builder.srem(n, _INDEX(rows.per_line)))

    def line(j, sums):
        rows.fetch(-2, j)
        rows.fetch(-1, j)
        for offset in range(0, rows.per_line, _WIDTH):
            sums = vector(builder.add(j, _INDEX(offset)), sums)
        return sums

    sums = _loop(builder, _INDEX(0), in_lines, rows.per_line, sums, line)
    return _loop(builder, in_lines, n, _WIDTH, sums, vector)


def _places_of(context, builder, signature, arguments, which):
    return [context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in which]


def _at(builder, vector, j):
    return builder.bitcast(builder.gep(vector, [j]), _VECTOR.as_pointer())


def _add_product(builder, total, a, b):
    return builder.fadd(total, builder.fmul(a, b, flags=_FLAGS), flags=_FLAGS)


def _loop(builder, start, stop, step, sums, work):
    """Emit ``for j in range(start, stop, step): sums = work(j, sums)``; return the sums."""
    before = builder.block
    head, body, end = (builder.append_basic_block(name) for name in ("loop", "loop.body", "loop.end"))
    builder.branch(head)
    builder.position_at_end(head)
    j, totals = builder.phi(_INDEX), [builder.phi(_VECTOR) for _ in sums]
    builder.cbranch(builder.icmp_signed("<", j, stop), body, end)
    builder.position_at_end(body)
    changed = work(j, totals)
    following = builder.add(j, _INDEX(step))
    builder.branch(head)
    for phi, first, later in zip([j, *totals], [start, *sums], [following, *changed], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, body)
    builder.position_at_end(end)
    return totals


def _one_vector(builder, rows, j, x, z, steps, sums):
    """Emit the work on one vector of columns; return the new sums."""
    places = [_at(builder, iterate, j) for iterate in (x, z)]
    here = [builder.load(place, align=8) for place in places]
    if steps:
        first, second = rows.load(0, j), rows.load(1, j)
        for c, place in enumerate(places):
            moved = _add_product(builder, here[c], steps[2 * c], first)
            here[c] = _add_product(builder, moved, steps[2 * c + 1], second)
            builder.store(here[c], place, align=8)
    u, v = rows.load(-4, j), rows.load(-3, j)
    factors = ((u, u), (v, v), (u, v), (u, here[0]), (v, here[0]), (u, here[1]), (v, here[1]))
    return [_add_product(builder, total, a, b) for total, (a, b) in zip(sums, factors, strict=True)]


def _spread(builder, number):
    empty = ir.Constant(_VECTOR, ir.Undefined)
    lane = builder.insert_element(empty, number, _INT(0))
    return builder.shuffle_vector(lane, empty, ir.Constant(ir.VectorType(_INT, _WIDTH), [0] * _WIDTH))


def _sum(builder, vector):
    lanes = [builder.extract_element(vector, _INT(k)) for k in range(_WIDTH)]
    total = lanes[0]
    for lane in lanes[1:]:
        total = builder.fadd(total, lane, flags=_FLAGS)
    return total
