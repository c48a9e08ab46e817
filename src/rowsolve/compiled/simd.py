"""The inner loops over a few rows at a time, written in vector instructions.

The compiler vectorises plain loops well, but only if they contain nothing else. The sweep and the pass also prefetch
rows, one cache line for each line that they use. Without prefetch a random row is read from memory at half speed,
because the processor recognizes sequential access only after much of the row has been read; and in a pass over rows in
order, memory is idle while they are used for the second time.

The code consists of LLVM's portable vectors and hints, so it runs wherever Numba does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

__all__ = [
    "LANES",
    "PANEL",
    "STRIP",
    "add_four_vectors",
    "add_narrow_rows",
    "add_strip",
    "add_tile",
    "copy_to_panels",
    "count_bits",
    "measure_four_vectors",
    "measure_vectors",
    "move_and_measure_vectors",
    "takes_blocks",
    "takes_narrow_rows",
    "turn_block",
    "whole_vectors",
]

_LINE = 64  # bytes
_WIDTH = 4  # float64 in a vector, as in the registers of most processors
_FLAGS = ("reassoc", "contract", "arcp", "nsz")
_DOUBLE, _INDEX, _INT = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_DOUBLE, _WIDTH)
_BYTES = ir.IntType(8).as_pointer()
_ZERO = ir.Constant(_VECTOR, [ir.Constant(_DOUBLE, 0.0)] * _WIDTH)
# A tile of a Gram matrix is kept in registers: it has as many rows as a vector has numbers, of three vectors each.
LANES = 8 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 4
PANEL = 3 * LANES
STRIP = LANES * LANES  # rows in Fortran order that are used at a time: their residuals stay in registers
_WIDE = ir.VectorType(_DOUBLE, LANES)


def whole_vectors(values: Any, n: int) -> int:
    """Return how many of `n` columns the functions below can process: none if Numba is disabled."""
    return 0


def move_and_measure_vectors(values: Any, places: Any, x: Any, z: Any, steps: Any, n: int) -> tuple[float, ...]:
    """Add multiples of two rows to x and to z, then compute products of two other rows, in the first `n` columns.

    `places` has two rows to add, two to measure and two to prefetch. `steps` has the factors of the first two for x,
    then for z. Return, for the rows measured, both squared norms, their product, their products with x, then with z.
    """
    return (0.0,) * 7


def measure_vectors(values: Any, places: Any, x: Any, z: Any, n: int) -> tuple[float, ...]:
    """Return the same products for two rows without changing x and z; `places` has these and two to prefetch."""
    return (0.0,) * 7


def measure_four_vectors(values: Any, places: Any, x: Any, z: Any, n: int) -> tuple[float, ...]:
    """Return the products of four rows with x and with z, row by row; `places` has these and two to prefetch."""
    return (0.0,) * 8


def add_four_vectors(values: Any, places: Any, steps: Any, g: Any, h: Any, n: int) -> None:
    """Add multiples of four rows to g and to h; `steps` has the factors, `places` the rows and two to prefetch."""


def takes_narrow_rows(values: Any) -> bool:
    """Return whether `add_narrow_rows` accepts these rows: not if Numba is disabled."""
    return False


def add_narrow_rows(
    values: Any, b: Any, weight: float, i: int, count: int, vectors: Any, out: Any
) -> tuple[float, ...]:
    """Do what `kernels.gradient.add_gradients` does, for an even `count` of rows of at most `PANEL` columns from `i`.

    `vectors` and `out` have `PANEL` columns, zero beyond those of A. Whole vectors are read, beyond the end of a row.
    Return the sums of squares.
    """
    return (0.0, 0.0)


def add_strip(turned: Any, b: Any, weight: float, i: int, vectors: Any, sums: Any) -> tuple[float, ...]:
    """Do what `kernels.gradient.add_gradients` does, for `STRIP` rows from `i`, which are columns of `turned`.

    `sums` has `LANES` places for each entry of the result, to be added up later. Return the sums of squares.
    """
    part = turned[:, i : i + STRIP]
    r, q = weight * b[i : i + STRIP] - vectors[0] @ part, -(vectors[1] @ part)
    sums[0, :, 0] += part @ r
    sums[1, :, 0] += part @ q
    return r @ r, q @ q


def copy_to_panels(values: Any, i: int, panels: Any, r: int, n: int) -> None:
    """Copy the first `n` columns of row `i`, and up to `LANES` numbers more, to row `r` of panels of `PANEL` columns.

    `values` is in C order, and must extend to the last number read.
    """
    row = values.reshape(-1)[i * values.shape[1] :]
    for j in range(-(-n // LANES) * LANES):
        panels[j // PANEL, r, j % PANEL] = row[j]


def add_tile(panels: Any, tile: int, panel: int, n_rows: int, n_vectors: int, out: Any) -> None:
    """Add products of columns over the first `n_rows` of `panels` to `out`: ``LANES x (n_vectors * LANES)`` of them.

    Columns of tile number `tile`, of `LANES` each, by those of panel number `panel`, of `PANEL` each.
    """
    i, j = tile * LANES, panel * PANEL
    left = panels[i // PANEL, :n_rows, i % PANEL :][:, :LANES]
    right = panels[panel, :n_rows, : n_vectors * LANES]
    out[i : i + LANES, j : j + n_vectors * LANES] += left.T @ right


def takes_blocks(turned: Any, target: Any) -> bool:
    """Return whether `turn_block` and `add_strip` accept this array, in C order and with a `target` of float64."""
    return turned.flags.c_contiguous and target.dtype == float


def turn_block(turned: Any, j: int, i: int, target: Any, r: int, c: int, ahead: int) -> None:
    """Copy the transpose of ``turned[j : j + LANES, i : i + LANES]`` to `target`, from row `r` and column `c`.

    If `turned` has fewer rows, the last one is repeated. The numbers `ahead` columns further in `turned` are
    prefetched.
    """
    for k in range(LANES):
        target[r : r + LANES, c + k] = turned[min(j + k, len(turned) - 1), i : i + LANES]


def count_bits(word: Any) -> int:
    """Return the number of bits set in an unsigned `word`, by one instruction if the processor has it."""
    return int(word).bit_count()


@overload(takes_blocks)
def _takes_blocks(turned, target):
    fits = turned.layout == "C" and target.layout == "C" and target.dtype == types.float64
    return lambda turned, target: fits


@overload(turn_block)
def _turn_block(turned, j, i, target, r, c, ahead):
    if turned.layout != "C" or target.layout != "C" or target.dtype != types.float64:
        return lambda turned, j, i, target, r, c, ahead: None

    def form(turned, j, i, target, r, c, ahead):
        _block_turned(turned, j, i, target, r, c, ahead)  # type: ignore[call-arg]

    return form


@intrinsic
def _block_turned(_, turned, j, i, target, r, c, ahead):
    places = (types.int64, types.int64)
    return types.void(turned, *places, target, *places, types.int64), _generate_turn


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


@overload(takes_narrow_rows)
def _takes_narrow_rows(values):
    contiguous = values.layout == "C"
    return lambda values: contiguous


@overload(add_narrow_rows)
def _add_narrow_rows(values, b, weight, i, count, vectors, out):
    def form(values, b, weight, i, count, vectors, out):
        if values.shape[1] <= LANES:
            return _narrow_rows_of_one(values, b, weight, i, count, vectors, out)  # type: ignore[call-arg]
        if values.shape[1] <= 2 * LANES:
            return _narrow_rows_of_two(values, b, weight, i, count, vectors, out)  # type: ignore[call-arg]
        return _narrow_rows_of_three(values, b, weight, i, count, vectors, out)  # type: ignore[call-arg]

    return form


@intrinsic
def _narrow_rows_of_one(_, values, b, weight, i, count, vectors, out):
    return _signature_of_narrow(values, b, vectors, out), partial(_generate_narrow, 1)


@intrinsic
def _narrow_rows_of_two(_, values, b, weight, i, count, vectors, out):
    return _signature_of_narrow(values, b, vectors, out), partial(_generate_narrow, 2)


@intrinsic
def _narrow_rows_of_three(_, values, b, weight, i, count, vectors, out):
    return _signature_of_narrow(values, b, vectors, out), partial(_generate_narrow, 3)


def _signature_of_narrow(values, b, vectors, out):
    return types.UniTuple(types.float64, 2)(values, b, types.float64, types.int64, types.int64, vectors, out)


@overload(add_strip)
def _add_strip(turned, b, weight, i, vectors, sums):
    if turned.layout != "C":
        return lambda turned, b, weight, i, vectors, sums: (0.0, 0.0)

    def form(turned, b, weight, i, vectors, sums):
        return _strip_added(turned, b, weight, i, vectors, sums)  # type: ignore[call-arg]

    return form


@intrinsic
def _strip_added(_, turned, b, weight, i, vectors, sums):
    return types.UniTuple(types.float64, 2)(turned, b, types.float64, types.int64, vectors, sums), _generate_strip


@overload(copy_to_panels)
def _copy_to_panels(values, i, panels, r, n):
    def form(values, i, panels, r, n):
        _copied(values, i, panels, r, n)  # type: ignore[call-arg]

    return form


@overload(add_tile)
def _add_tile(panels, tile, panel, n_rows, n_vectors, out):
    def form(panels, tile, panel, n_rows, n_vectors, out):
        if n_vectors == 3:
            _tile_of_three(panels, tile, panel, n_rows, out)  # type: ignore[call-arg]
        elif n_vectors == 2:
            _tile_of_two(panels, tile, panel, n_rows, out)  # type: ignore[call-arg]
        else:
            _tile_of_one(panels, tile, panel, n_rows, out)  # type: ignore[call-arg]

    return form


@intrinsic
def _copied(_, values, i, panels, r, n):
    return types.void(values, types.int64, panels, types.int64, types.int64), _generate_copy


@intrinsic
def _tile_of_one(_, panels, tile, panel, n_rows, out):
    return _signature_of_tile(panels, out), partial(_generate_tile, 1)


@intrinsic
def _tile_of_two(_, panels, tile, panel, n_rows, out):
    return _signature_of_tile(panels, out), partial(_generate_tile, 2)


@intrinsic
def _tile_of_three(_, panels, tile, panel, n_rows, out):
    return _signature_of_tile(panels, out), partial(_generate_tile, 3)


def _signature_of_tile(panels, out):
    return types.void(panels, types.int64, types.int64, types.int64, out)


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
    """Emits loads of rows as vectors of float64, whatever their stored type."""

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
        _prefetch(self.builder, self.builder.gep(self.starts[which], [j]))


def _prefetch(builder, place):
    """Emit a prefetch for reading, into the second-level cache: the first holds the current data."""
    kind = ir.FunctionType(ir.VoidType(), [_BYTES, _INT, _INT, _INT])
    hint = builder.module.declare_intrinsic("llvm.prefetch", [_BYTES], kind)
    read, second_level, data = _INT(0), _INT(2), _INT(1)
    builder.call(hint, [builder.bitcast(place, _BYTES), read, second_level, data])


def _generate(context, builder, signature, arguments):
    """Emit the loops with seven running sums.

    Without steps no rows are added, and the first two rows are those to measure.
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


def _generate_copy(context, builder, signature, arguments):
    """Emit a loop over the vectors of a row, and within it over those of a panel."""
    values, _, panels, _, _ = signature.args
    single = values.dtype == types.float32
    source, shape = _array(context, builder, values, arguments[0])
    target, sizes = _array(context, builder, panels, arguments[2])
    start = builder.gep(source, [builder.mul(arguments[1], shape[1])])
    place = builder.gep(target, [builder.mul(arguments[3], _INDEX(PANEL))])
    apart = builder.sub(builder.mul(sizes[1], _INDEX(PANEL)), _INDEX(PANEL))  # from the end of a panel to the next

    def vector(j, _):
        found = _load_wide(builder, start, j, single=single)
        before = builder.mul(builder.sdiv(j, _INDEX(PANEL)), apart)
        where = builder.gep(place, [builder.add(before, j)])
        builder.store(found, builder.bitcast(where, _WIDE.as_pointer()), align=8)
        return []

    _loop(builder, _INDEX(0), arguments[4], LANES, [], vector)
    return context.get_dummy_value()


def _generate_turn(context, builder, signature, arguments):
    """Emit loads of as many vectors as they have lanes, their transposition, and as many stores."""
    (source, shape), (target, sizes) = (_array(context, builder, signature.args[k], arguments[k]) for k in (0, 3))
    j, i, r, c, ahead = (arguments[k] for k in (1, 2, 4, 5, 6))
    single, vectors, last = signature.args[0].dtype == types.float32, [], builder.sub(shape[0], _INDEX(1))
    for k in range(LANES):
        wanted = builder.add(j, _INDEX(k))
        there = builder.select(builder.icmp_signed("<", wanted, last), wanted, last)
        row = builder.gep(source, [builder.add(builder.mul(there, shape[1]), i)])
        vectors.append(_load_wide(builder, row, _INDEX(0), single=single))
        _prefetch(builder, builder.gep(row, [ahead]))
    for k, vector in enumerate(_transposed(builder, vectors)):
        place = builder.add(builder.mul(builder.add(r, _INDEX(k)), sizes[1]), c)
        builder.store(vector, builder.bitcast(builder.gep(target, [place]), _WIDE.as_pointer()), align=8)
    return context.get_dummy_value()


def _transposed(builder, vectors):
    """Return the transpose of a square of numbers, given as `LANES` vectors.

    Vectors whose numbers differ by 1, 2 or 4 exchange the lanes whose numbers differ by as much.
    """
    vectors, apart = list(vectors), 1
    while apart < LANES:
        kept = [LANES + lane - apart if lane & apart else lane for lane in range(LANES)]
        moved = [LANES + lane if lane & apart else lane + apart for lane in range(LANES)]
        for k in range(LANES):
            if not k & apart:
                pair = vectors[k], vectors[k + apart]
                vectors[k], vectors[k + apart] = _shuffled(builder, pair, kept), _shuffled(builder, pair, moved)
        apart *= 2
    return vectors


def _shuffled(builder, pair, lanes):
    return builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(_INT, LANES), lanes))


def _generate_tile(n_vectors, context, builder, signature, arguments):
    """Emit a loop over rows that keeps all sums in registers, and adds them to `out` at its end."""
    panels, sizes = _array(context, builder, signature.args[0], arguments[0])
    out, shape = _array(context, builder, signature.args[4], arguments[4])
    tile, panel, n_rows = arguments[1:4]
    of_panel = builder.mul(sizes[1], _INDEX(PANEL))
    own, lanes = builder.sdiv(tile, _INDEX(PANEL // LANES)), builder.srem(tile, _INDEX(PANEL // LANES))
    left = builder.gep(panels, [builder.add(builder.mul(own, of_panel), builder.mul(lanes, _INDEX(LANES)))])
    right = builder.gep(panels, [builder.mul(panel, of_panel)])

    def row(r, sums):
        at = builder.mul(r, _INDEX(PANEL))
        here = [_load_wide(builder, right, builder.add(at, _INDEX(v * LANES))) for v in range(n_vectors)]
        found = []
        for i in range(LANES):
            factor = _spread(builder, builder.load(builder.gep(left, [builder.add(at, _INDEX(i))])), _WIDE)
            found += [_add_product(builder, sums[i * n_vectors + v], factor, here[v]) for v in range(n_vectors)]
        return found

    nothing = ir.Constant(_WIDE, [ir.Constant(_DOUBLE, 0.0)] * LANES)
    sums = _loop(builder, _INDEX(0), n_rows, 1, [nothing] * (LANES * n_vectors), row)
    corner = builder.add(
        builder.mul(builder.mul(tile, _INDEX(LANES)), shape[1]), builder.mul(panel, _INDEX(PANEL))
    )  # fmt: skip
    for k, total in enumerate(sums):
        i, v = divmod(k, n_vectors)
        place = builder.add(corner, builder.add(builder.mul(_INDEX(i), shape[1]), _INDEX(v * LANES)))
        before = _load_wide(builder, out, place)
        where = builder.bitcast(builder.gep(out, [place]), _WIDE.as_pointer())
        builder.store(builder.fadd(before, total), where, align=8)
    return context.get_dummy_value()


def _generate_narrow(n_vectors, context, builder, signature, arguments):
    """Emit a loop over two rows at a time, each with its own sums in registers, so that neither waits for the other."""
    values, width = _array(context, builder, signature.args[0], arguments[0])
    width, single = width[1], signature.args[0].dtype == types.float32
    b, _ = _array(context, builder, signature.args[1], arguments[1])
    weight, first, count = arguments[2:5]
    vectors, out = _places_of(context, builder, signature, arguments, (5, 6))
    places = [_INDEX(c * PANEL + v * LANES) for c in range(2) for v in range(n_vectors)]
    x_and_z = [_load_wide(builder, vectors, place) for place in places]

    def one_row(i, sums):
        start = builder.gep(values, [builder.mul(i, width)])
        row = [_load_wide(builder, start, _INDEX(v * LANES), single=single) for v in range(n_vectors)]
        gaps = []
        for c, known in enumerate((builder.fmul(weight, builder.load(builder.gep(b, [i]))), _DOUBLE(0.0))):
            product = builder.fmul(row[0], x_and_z[c * n_vectors], flags=_FLAGS)
            for v in range(1, n_vectors):
                product = _add_product(builder, product, row[v], x_and_z[c * n_vectors + v])
            gaps.append(builder.fsub(known, _sum_wide(builder, product), flags=_FLAGS))
        wide = [_spread(builder, gap, _WIDE) for gap in gaps]
        found = [_add_product(builder, sums[k], wide[k // n_vectors], row[k % n_vectors]) for k in range(2 * n_vectors)]
        return found + [_add_product(builder, sums[k - 2], gap, gap) for k, gap in enumerate(gaps)]

    def two_rows(r, sums):
        i, half = builder.add(first, r), len(sums) // 2
        return one_row(i, sums[:half]) + one_row(builder.add(i, _INDEX(1)), sums[half:])

    nothing = ir.Constant(_WIDE, [ir.Constant(_DOUBLE, 0.0)] * LANES)
    start = [*[nothing] * (2 * n_vectors), _DOUBLE(0.0), _DOUBLE(0.0)]
    sums = _loop(builder, _INDEX(0), count, 2, start + start, two_rows)
    sums = [builder.fadd(one, other) for one, other in zip(sums[: len(start)], sums[len(start) :], strict=True)]
    for place, found in zip(places, sums[:-2], strict=True):
        where = builder.bitcast(builder.gep(out, [place]), _WIDE.as_pointer())
        builder.store(builder.fadd(_load_wide(builder, out, place), found), where, align=8)
    return cgutils.pack_array(builder, sums[-2:])


def _generate_strip(context, builder, signature, arguments):
    """Emit two loops over columns: one computes residuals, which stay in registers, the other adds up the result."""
    turned, shape = _array(context, builder, signature.args[0], arguments[0])
    (n_columns, n_rows), single = shape, signature.args[0].dtype == types.float32
    b, vectors, sums = _places_of(context, builder, signature, arguments, (1, 4, 5))
    weight, i = _spread(builder, arguments[2], _WIDE), arguments[3]
    offsets = [builder.add(i, _INDEX(v * LANES)) for v in range(STRIP // LANES)]

    def column(j):
        start = builder.gep(turned, [builder.mul(j, n_rows)])
        return start, [_load_wide(builder, start, offset, single=single) for offset in offsets]

    def subtract(j, left):
        _, here = column(j)
        places = j, builder.add(n_columns, j)
        steps = [_spread(builder, builder.load(builder.gep(vectors, [place])), _WIDE) for place in places]
        products = [builder.fmul(vector, step, flags=_FLAGS) for step in steps for vector in here]
        return [builder.fsub(total, product, flags=_FLAGS) for total, product in zip(left, products, strict=True)]

    nothing = ir.Constant(_WIDE, [ir.Constant(_DOUBLE, 0.0)] * LANES)
    known = [builder.fmul(weight, _load_wide(builder, b, offset)) for offset in offsets]
    left = _loop(builder, _INDEX(0), n_columns, 1, [*known, *[nothing] * len(known)], subtract)

    def add(j, none):
        start, here = column(j)
        for v in range(0, len(here), 2 if single else 1):  # a cache line of the next rows each
            _prefetch(builder, builder.gep(start, [builder.add(offsets[v], _INDEX(STRIP))]))
        for c, place in enumerate((j, builder.add(n_columns, j))):
            where = builder.mul(place, _INDEX(LANES))
            total = _load_wide(builder, sums, where)
            for one, other in zip(here, left[c * len(here) :], strict=False):
                total = _add_product(builder, total, one, other)
            builder.store(total, builder.bitcast(builder.gep(sums, [where]), _WIDE.as_pointer()), align=8)
        return none

    _loop(builder, _INDEX(0), n_columns, 1, [], add)
    squares = [nothing, nothing]
    for k, vector in enumerate(left):
        squares[k // len(known)] = _add_product(builder, squares[k // len(known)], vector, vector)
    return cgutils.pack_array(builder, [_sum_wide(builder, vector) for vector in squares])


def _load_wide(builder, data, place, *, single=False):
    """Emit a load of numbers, of single precision or not, as float64."""
    kind = ir.VectorType(ir.FloatType(), LANES) if single else _WIDE
    found = builder.load(builder.bitcast(builder.gep(data, [place]), kind.as_pointer()), align=4 if single else 8)
    return builder.fpext(found, _WIDE) if single else found


def _array(context, builder, kind, array):
    """Return the address of the numbers of an array, and its shape."""
    parts = context.make_array(kind)(context, builder, array)
    return parts.data, cgutils.unpack_tuple(builder, parts.shape, kind.ndim)


def _over_columns(builder, rows, n, sums, vector):
    """Emit two loops: over whole cache lines, with prefetch of the last two rows, then over the remaining vectors."""
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
    j, totals = builder.phi(_INDEX), [builder.phi(total.type) for total in sums]
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


def _spread(builder, number, kind=_VECTOR):
    empty = ir.Constant(kind, ir.Undefined)
    lane = builder.insert_element(empty, number, _INT(0))
    return builder.shuffle_vector(lane, empty, ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count))


def _sum_wide(builder, vector):
    kind = ir.FunctionType(_DOUBLE, [_DOUBLE, _WIDE])
    total = builder.module.declare_intrinsic(f"llvm.vector.reduce.fadd.v{LANES}f64", (), kind)
    return builder.call(total, [_DOUBLE(0.0), vector], fastmath=_FLAGS)


def _sum(builder, vector):
    lanes = [builder.extract_element(vector, _INT(k)) for k in range(_WIDTH)]
    total = lanes[0]
    for lane in lanes[1:]:
        total = builder.fadd(total, lane, flags=_FLAGS)
    return total
