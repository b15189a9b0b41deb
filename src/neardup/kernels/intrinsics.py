"""Machine instructions that Numba does not offer, as functions for kernels to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

AHEAD = 16
"""A loop over keys prefetches the place of the key that is this many turns ahead."""


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any, bits: int) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    base = builder.bitcast(data, ir.IntType(8).as_pointer())
    return builder.bitcast(builder.gep(base, [index]), ir.IntType(bits).as_pointer())


@intrinsic
def load64(typing: Any, array: Any, index: Any) -> Any:
    """Load eight bytes from any position of a byte array, little-endian. Not bounds-checked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _pointer(context, builder, signature.args[0], args[0], args[1], 64)
        return builder.load(at, align=1)

    return types.uint64(array, types.int64), generate


@intrinsic
def store64(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Store eight bytes at any position of a byte array, little-endian. Not bounds-checked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _pointer(context, builder, signature.args[0], args[0], args[1], 64)
        builder.store(args[2], at, align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), generate


BLOCK = 64
"""Bytes that are compared or copied at once; the compiler makes them the vectors of the machine."""
_BYTES = ir.VectorType(ir.IntType(8), BLOCK)


def _load_block(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    at = _pointer(context, builder, array_type, array, index, 8)
    return builder.load(builder.bitcast(at, _BYTES.as_pointer()), align=1)


def _store_block(context: Any, builder: Any, array_type: Any, args: Any, block: Any) -> None:
    at = _pointer(context, builder, array_type, args[0], args[1], 8)
    builder.store(block, builder.bitcast(at, _BYTES.as_pointer()), align=1)


def _every(byte: int) -> Any:
    return ir.Constant(_BYTES, [byte] * BLOCK)


def _within(builder: Any, block: Any, first: int, last: int) -> Any:
    """Return which bytes of a block are between two bytes, both included."""
    return builder.icmp_unsigned("<=", builder.sub(block, _every(first)), _every(last - first))


@intrinsic(prefer_literal=True)
def bytes_within(typing: Any, array: Any, index: Any, first: Any, last: Any) -> Any:
    """Return 64 bits: which of the bytes from `index` on are between two constants, both included.

    Not bounds-checked, as the other functions of blocks.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _load_block(context, builder, signature.args[0], args[0], args[1])
        low, high = signature.args[2].literal_value, signature.args[3].literal_value
        return builder.bitcast(_within(builder, block, low, high), ir.IntType(64))

    return types.uint64(array, types.int64, first, last), generate


@intrinsic
def copy_block(typing: Any, target: Any, place: Any, source: Any, index: Any) -> Any:
    """Copy 64 bytes from one byte array to another."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _load_block(context, builder, signature.args[2], args[2], args[3])
        _store_block(context, builder, signature.args[0], args, block)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), generate


@intrinsic
def copy_folded(
    typing: Any, target: Any, place: Any, source: Any, index: Any, case: Any, digits: Any
) -> Any:
    """Copy 64 ASCII bytes in lower case if `case`, with every digit as 0 if `digits`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _load_block(context, builder, signature.args[2], args[2], args[3])
        lower = builder.or_(block, _every(0x20))
        upper = _within(builder, block, ord("A"), ord("Z"))
        digit = _within(builder, block, ord("0"), ord("9"))
        cased = builder.select(args[4], builder.select(upper, lower, block), block)
        plain = builder.select(digit, _every(ord("0")), cased)
        folded = builder.select(args[5], plain, cased)
        _store_block(context, builder, signature.args[0], args, folded)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, case, digits), generate


@intrinsic
def bits_set(typing: Any, bits: Any) -> Any:
    """Return the number of set bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


@intrinsic
def trailing_zeros(typing: Any, bits: Any) -> Any:
    """Return the number of the lowest set bit, 64 if no bit is set."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def add_where(typing: Any, sums: Any, first: Any, bits: Any, value: Any) -> Any:
    """Add a value to those of 64 sums, from `first` on, whose bit is set. Not bounds-checked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(64), 64)
        at = _pointer(
            context,
            builder,
            signature.args[0],
            args[0],
            builder.mul(args[1], ir.Constant(ir.IntType(64), 8)),
            64,
        )
        at = builder.bitcast(at, lanes.as_pointer())
        chosen = builder.bitcast(args[2], ir.VectorType(ir.IntType(1), 64))
        one = builder.insert_element(
            ir.Constant(lanes, ir.Undefined), args[3], ir.Constant(ir.IntType(32), 0)
        )
        nowhere = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        every = builder.shuffle_vector(one, ir.Constant(lanes, ir.Undefined), nowhere)
        added = builder.select(chosen, every, ir.Constant(lanes, [0] * 64))
        builder.store(builder.add(builder.load(at, align=8), added), at, align=8)
        return context.get_dummy_value()

    return types.void(sums, types.int64, types.uint64, types.uint64), generate


LANES = 8
"""Products of float32 numbers are summed in this many places, by their index."""
_LANES = ir.VectorType(ir.DoubleType(), LANES)


def _sum_lanes(builder: Any, lanes: Any) -> Any:
    """Return ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7))."""
    parts = [builder.extract_element(lanes, ir.IntType(32)(place)) for place in range(LANES)]
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [builder.fadd(parts[i], parts[i + half]) for i in range(half)]
    return parts[0]


@intrinsic
def dot_products(typing: Any, one: Any, a: Any, other: Any, b: Any, count: Any) -> Any:
    """Return x.y, x.x and y.y of `count` float32 numbers each: x at byte a of one array, y at b.

    In float64, in eight lanes: the order of additions is stated, so that each machine gives the
    same bits. (Products of two float32 numbers are exact.) Not bounds-checked.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = [
            builder.bitcast(
                _pointer(context, builder, signature.args[of], args[of], args[of + 1], 32),
                ir.FloatType().as_pointer(),
            )
            for of in (0, 2)
        ]
        found = _sum_products(builder, rows, args[4])
        return context.make_tuple(builder, signature.return_type, found)

    result: Any = types.UniTuple(types.float64, 3)  # type: ignore[no-untyped-call]
    return result(one, types.int64, other, types.int64, types.int64), generate


def _sum_products(builder: Any, rows: list[Any], count: Any) -> list[Any]:
    """Return the sums of the products first * second, first * first and second * second."""
    word, narrow = ir.IntType(64), ir.VectorType(ir.FloatType(), LANES)
    zeros: Any = ir.Constant(_LANES, [0.0] * LANES)
    sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(3)]  # type: ignore[no-untyped-call]

    def add(numbers: list[Any], join: Callable[[Any, Any], Any]) -> None:
        for place, (p, q) in zip(sums, ((0, 1), (0, 0), (1, 1)), strict=True):
            product = builder.fmul(numbers[p], numbers[q])
            builder.store(join(builder.load(place), product), place)

    blocks = builder.udiv(count, word(LANES))
    with cgutils.for_range(builder, blocks) as loop:
        at = builder.mul(loop.index, word(LANES))
        places = [builder.bitcast(builder.gep(row, [at]), narrow.as_pointer()) for row in rows]
        add([builder.fpext(builder.load(one, align=4), _LANES) for one in places], builder.fadd)
    done = builder.mul(blocks, word(LANES))
    with cgutils.for_range(builder, builder.sub(count, done)) as loop:
        lane, at = loop.index, builder.add(done, loop.index)

        def join(lanes: Any, product: Any) -> Any:
            added = builder.fadd(builder.extract_element(lanes, lane), product)
            return builder.insert_element(lanes, added, lane)

        wide = ir.DoubleType()
        add([builder.fpext(builder.load(builder.gep(row, [at])), wide) for row in rows], join)
    return [_sum_lanes(builder, builder.load(place)) for place in sums]


TOGETHER = 32
"""Planes whose signs `signs_of_two` finds at once."""
_HALF = TOGETHER // 2
_PAIRS, _SUMS = ir.VectorType(ir.IntType(16), TOGETHER), ir.VectorType(ir.IntType(32), _HALF)


def _add_products(builder: Any, sums: Any, one: Any, other: Any) -> Any:
    """Add the products of pairs of 16-bit numbers: one instruction of x86, in this form."""
    wide = ir.VectorType(ir.IntType(32), TOGETHER)
    products = builder.mul(builder.sext(one, wide), builder.sext(other, wide), flags=["nsw"])
    even, odd = (
        builder.shuffle_vector(
            products,
            products,
            ir.Constant(_SUMS, list(range(first, TOGETHER, 2))),
        )
        for first in (0, 1)
    )
    return builder.add(sums, builder.add(even, odd))


@intrinsic
def signs_of_two(
    typing: Any,
    rows: Any,
    a: Any,
    b: Any,
    packed: Any,
    at: Any,
    bounds: Any,
    first: Any,
    pairs: Any,
) -> Any:
    """Return for two vectors of 16-bit numbers which of 32 products reach their bounds, as bits.

    The vectors are at bytes a and b of `rows`. The others are packed from byte `at` on: pair by
    pair, of each of them two numbers. Their bounds are 32-bit numbers from byte `first` on. Sums
    are modulo 2^32. Not bounds-checked.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, kinds = ir.IntType(64), signature.args
        vectors = [_pointer(context, builder, kinds[0], args[0], args[of], 32) for of in (1, 2)]
        halves = _pointer(context, builder, kinds[3], args[3], args[4], 16)
        halves = builder.bitcast(halves, _PAIRS.as_pointer())
        limits = _pointer(context, builder, kinds[5], args[5], args[6], 32)
        limits = builder.bitcast(limits, _SUMS.as_pointer())
        none: Any = ir.Constant(_SUMS, [0] * _HALF)
        sums = [
            [cgutils.alloca_once_value(builder, none) for _ in range(2)]  # type: ignore[no-untyped-call]
            for _ in range(2)
        ]
        with cgutils.for_range(builder, args[7]) as loop:
            places = [builder.add(builder.mul(loop.index, word(2)), word(half)) for half in (0, 1)]
            others = [builder.load(builder.gep(halves, [place]), align=2) for place in places]
            for vector, of_vector in zip(vectors, sums, strict=True):
                pair = builder.load(builder.gep(vector, [loop.index]), align=2)
                one = builder.insert_element(
                    ir.Constant(_SUMS, ir.Undefined), pair, ir.IntType(32)(0)
                )
                every = builder.shuffle_vector(one, one, none)
                numbers = builder.bitcast(every, _PAIRS)
                for other, sum_ in zip(others, of_vector, strict=True):
                    added = _add_products(builder, builder.load(sum_), numbers, other)
                    builder.store(added, sum_)
        found = []
        for of_vector in sums:
            bits = word(0)
            for half, sum_ in enumerate(of_vector):
                limit = builder.load(builder.gep(limits, [word(half)]), align=4)
                reached = builder.icmp_signed(">=", builder.load(sum_), limit)
                mask = builder.zext(builder.bitcast(reached, ir.IntType(_HALF)), word)
                bits = builder.or_(bits, builder.shl(mask, word(half * _HALF)))
            found.append(bits)
        return context.make_tuple(builder, signature.return_type, found)

    result: Any = types.UniTuple(types.uint64, 2)  # type: ignore[no-untyped-call]
    place = types.int64
    return result(rows, place, place, packed, place, bounds, place, place), generate


@intrinsic
def scaled(typing: Any, value: Any, size: Any) -> Any:
    """Scale a 64-bit hash evenly to a number below `size`: the high half of their product."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Start to load an item of an array into the cache. Any index is allowed."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        at = builder.bitcast(builder.gep(data, [args[1]]), byte)
        call = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], call)
        builder.call(function, [at, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    """Return a pointer for an address that Python passed as a number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), generate
