"""Four numbers at once: a vector type for the few kernels whose loops LLVM does not vectorise by itself.

Within a kernel, ``load(array, i, j)`` takes ``array[i, j : j + 4]`` into one register, arithmetic works on
all four elements, and ``store`` writes them back. No bounds are checked, and indices count from the front.

It is built on numba's extension interface (``numba.extending``) and on two of its internals: what
``context.make_array`` gives has the fields ``data`` and ``strides``, and ``builder`` is that of llvmlite. The
project allows the versions of numba with which this has been tested, and tests/compute/test_numba.py names
each assumption.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model

__all__ = ["element", "load", "splat", "store"]

WIDTH = 4  # numbers in a vector: a register of AVX2 holds four doubles
_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
# As in `pointglue.compute.kernel`: a product and a sum may be fused, and nothing else.
_FUSED = ("contract",)


class _Vector(types.Type):
    """The type of a vector, as numba sees it."""

    def __init__(self) -> None:
        super().__init__("Vector4")


_vector = _Vector()


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    """The vector as LLVM holds it."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _DOUBLES)


def _address(context: Any, builder: Any, array_type: Any, array: Any, i: Any, j: Any) -> Any:
    """Return where array[i, j] is, as a pointer to four doubles; rows are contiguous."""
    fields = context.make_array(array_type)(context, builder, array)
    row = builder.mul(i, builder.extract_value(fields.strides, 0))
    start = builder.add(row, builder.mul(j, ir.Constant(ir.IntType(64), 8)))
    base = builder.ptrtoint(fields.data, ir.IntType(64))
    return builder.inttoptr(builder.add(base, start), _DOUBLES.as_pointer())


@intrinsic
def load(typing: Any, array: Any, i: Any, j: Any) -> Any:
    """Return the vector array[i, j : j + 4]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i, j = (context.cast(builder, args[k], signature.args[k], types.int64) for k in (1, 2))
        return builder.load(_address(context, builder, signature.args[0], args[0], i, j), align=8)

    return _vector(array, i, j), generate


@intrinsic
def store(typing: Any, array: Any, i: Any, j: Any, value: Any) -> Any:
    """Write a vector to array[i, j : j + 4]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i, j = (context.cast(builder, args[k], signature.args[k], types.int64) for k in (1, 2))
        builder.store(args[3], _address(context, builder, signature.args[0], args[0], i, j), align=8)
        return context.get_dummy_value()

    return types.void(array, i, j, value), generate


@intrinsic
def splat(typing: Any, value: Any) -> Any:
    """Return a vector with a number in all four elements."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = context.cast(builder, args[0], signature.args[0], types.float64)
        first = builder.insert_element(
            ir.Constant(_DOUBLES, ir.Undefined), number, ir.Constant(ir.IntType(32), 0)
        )
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        return builder.shuffle_vector(first, ir.Constant(_DOUBLES, ir.Undefined), zeros)

    return _vector(value), generate


@intrinsic
def element(typing: Any, value: Any, number: Any) -> Any:
    """Return one of the four numbers of a vector."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(
            args[0], context.cast(builder, args[1], signature.args[1], types.int32)
        )

    return types.float64(value, number), generate


def _elementwise(name: str, symbol: Callable[..., Any]) -> None:
    """Let an operator work on vectors, element by element, through LLVM's instruction `name`."""

    @intrinsic
    def instruction(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, name)(*args, flags=_FUSED)

        return _vector(a, b), generate

    @overload(symbol)
    def operate(a, b):
        if isinstance(a, _Vector) and isinstance(b, _Vector):
            return lambda a, b: instruction(a, b)  # noqa: PLW0108 (numba wants a function of its own)
        if isinstance(a, types.Float) and isinstance(b, _Vector):
            return lambda a, b: instruction(splat(a), b)
        return None


_elementwise("fadd", operator.add)
_elementwise("fsub", operator.sub)
_elementwise("fmul", operator.mul)
