"""Where in a table does a key belong, and how is that place fetched before it is needed?"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from neardup.kernels.compile import inline
from neardup.kernels.hashing import mix

U = np.uint64
AHEAD = 16
"""So many keys before its own turn, a key's place is fetched: memory answers meanwhile."""


@intrinsic
def scaled(typing: Any, value: Any, size: Any) -> Any:
    """The high half of the product: a 64-bit hash to a number below `size`, evenly."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Ask for the memory of an item; nothing waits, and no index is wrong."""

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
    """What is at an address that Python gave."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), generate


@inline
def spread(hashed, salt):
    """A key's 64 bits, well mixed whatever hash came, other ones for another seed."""
    return mix(hashed ^ salt)
