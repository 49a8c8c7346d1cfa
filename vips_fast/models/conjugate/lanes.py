"""Eight records side by side: a Numba type of number on which a statistics function of one record runs for eight.

A `Lanes` stands for one number of each of eight records, and a `LanesArray` for a vector of each. A function of a
record that is compiled with these types, in place of float64 and of arrays, computes eight records at once in vector
registers.

Notes
-----
Claim: lane l of what the function writes depends on lane l of what it reads and on its parameters alone, bit for bit.

Proof. The types have the operations of this file and no others. Each acts on each lane alone: arithmetic, minimum,
maximum and square root are LLVM's operations on vectors, which are those of IEEE 754 on each element (no fast-math flag
is set, so nothing is contracted or reordered); the exponential is made of these; other functions of the math module are
called for one lane after the other. Vectors of lanes can be asked for their length, and read and written at integers.
There is no comparison of lanes and no way from lanes to a number, so branches, ranges and indices cannot depend on a
record; where a function needs that, it does not compile with these types. QED
"""

import builtins
import math
import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types
from numba.core.datamodel.models import PrimitiveModel
from numba.core.typeconv.castgraph import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import (
    lower_builtin,
    lower_cast,
    make_attribute_wrapper,
    models,
    overload,
    overload_attribute,
    register_model,
)

#: Records side by side: a vector register of AVX-512, two of AVX2.
WIDTH = 8

_VECTOR, _WHOLE = ir.VectorType(ir.DoubleType(), WIDTH), ir.VectorType(ir.IntType(64), WIDTH)
_LINE = 64

#: Untyped: the first parameter of such a function, the typing context, is not an argument of its calls.
_intrinsic: Any = extending.intrinsic


class Lanes(types.Type):
    """One number of each of eight records."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """Numbers that are the same for all records become lanes."""
        return Conversion.safe if _is_number(other) else None

    def unify(self, typingctx: Any, other: Any) -> Any:
        """A variable that is a number first and lanes later is lanes."""
        return self if _is_number(other) else None


class LanesArray(types.Type):
    """A vector of each of eight records: read and written at integers."""

    def __init__(self) -> None:
        super().__init__(name="LanesArray")


def _is_number(kind: Any) -> bool:
    return isinstance(kind, (types.Float, types.Integer, types.Boolean))


lanes, lanes_array = Lanes(), LanesArray()
make_attribute_wrapper(LanesArray, "size", "size")


@register_model(Lanes)
class _LanesModel(PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _VECTOR)


@register_model(LanesArray)
class _LanesArrayModel(models.StructModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, [("data", types.CPointer(lanes)), ("size", types.intp)])


def _splat(builder, value):
    """One number in all lanes."""
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), zeros)


def _all(value):
    return ir.Constant(_VECTOR, [value] * WIDTH)


@lower_cast(types.Float, Lanes)
@lower_cast(types.Integer, Lanes)
@lower_cast(types.Boolean, Lanes)
def _number_to_lanes(context, builder, source, target, value):
    return _splat(builder, context.cast(builder, value, types.unliteral(source), types.float64))


# ---------------------------------------------------------------- arithmetic


def _binary(function: Any, emit: Any) -> None:
    """``function`` of two lanes, or of lanes and a number."""

    @infer_global(function)
    class _Template(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) == 2 and not kws and lanes in args and all(a == lanes or _is_number(a) for a in args):
                return signature(lanes, lanes, lanes)
            return None

    @lower_builtin(function, Lanes, Lanes)
    def _lower(context, builder, sig, args):
        return emit(builder, *args)


def _unary(function: Any, emit: Any) -> None:
    """``function`` of lanes; ``emit`` takes the context too."""

    @infer_global(function)
    class _Template(AbstractTemplate):
        def generic(self, args, kws):
            return signature(lanes, lanes) if tuple(args) == (lanes,) and not kws else None

    @lower_builtin(function, Lanes)
    def _lower(context, builder, sig, args):
        return emit(context, builder, args[0])


def _vector_intrinsic(name: str) -> Any:
    def emit(context, builder, x):
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{WIDTH}f64"), [x])

    return emit


def _one_by_one(function: Any) -> Any:
    """A function of a float64, called for one lane after the other."""

    def emit(context, builder, x):
        kind = context.typing_context.resolve_value_type(function)
        call = context.get_function(kind, kind.get_call_type(context.typing_context, (types.float64,), {}))
        out = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(WIDTH):
            at = ir.Constant(ir.IntType(32), lane)
            out = builder.insert_element(out, call(builder, (builder.extract_element(x, at),)), at)
        return out

    return emit


_function: Any
for _function in (operator.add, operator.iadd):
    _binary(_function, lambda builder, a, b: builder.fadd(a, b))
for _function in (operator.sub, operator.isub):
    _binary(_function, lambda builder, a, b: builder.fsub(a, b))
for _function in (operator.mul, operator.imul):
    _binary(_function, lambda builder, a, b: builder.fmul(a, b))
for _function in (operator.truediv, operator.itruediv):
    _binary(_function, lambda builder, a, b: builder.fdiv(a, b))
# As Python's max and min: the first, unless the second is greater, or less.
_binary(builtins.max, lambda builder, a, b: builder.select(builder.fcmp_ordered(">", b, a), b, a))
_binary(builtins.min, lambda builder, a, b: builder.select(builder.fcmp_ordered("<", b, a), b, a))
_unary(operator.neg, lambda context, builder, x: builder.fneg(x))
_unary(operator.pos, lambda context, builder, x: x)
for _functions, _name in (((math.sqrt, np.sqrt), "sqrt"), ((math.fabs, np.fabs, np.abs, builtins.abs), "fabs")):
    for _function in _functions:
        _unary(_function, _vector_intrinsic(_name))
for _function in (math.log, math.log1p, math.expm1, math.tanh, math.sin, math.cos, math.atan, math.lgamma, math.erf):
    _unary(_function, _one_by_one(_function))
for _function, _same in ((np.log, math.log), (np.log1p, math.log1p), (np.expm1, math.expm1), (np.tanh, math.tanh)):
    _unary(_function, _one_by_one(_same))


@overload(operator.pow)
def _power(x, n):
    if x == lanes and isinstance(n, types.Integer):

        def power(x, n):
            out = 1.0 + 0.0 * x
            for _ in range(abs(n)):
                out = out * x
            return out if n >= 0 else 1.0 / out

        return power
    return None


@_intrinsic
def _nearest(typingctx, x):
    """Nearest integers, ties to even."""

    def codegen(context, builder, sig, args):
        return _vector_intrinsic("rint")(context, builder, args[0])

    return lanes(lanes), codegen


@_intrinsic
def _power_of_two(typingctx, n):
    """2^n for integers n in [-1022, 1023], by the bits of a float64."""

    def codegen(context, builder, sig, args):
        whole = builder.fptosi(args[0], _WHOLE)
        biased = builder.add(whole, ir.Constant(_WHOLE, [1023] * WIDTH))
        return builder.bitcast(builder.shl(biased, ir.Constant(_WHOLE, [52] * WIDTH)), _VECTOR)

    return lanes(lanes), codegen


@_intrinsic
def _where_nan(typingctx, x, out):
    """x where it is no number, else out."""

    def codegen(context, builder, sig, args):
        return builder.select(builder.fcmp_unordered("uno", args[0], args[0]), args[0], args[1])

    return lanes(lanes, lanes), codegen


@overload(math.exp)
@overload(np.exp)
def _exp(x):
    """Within 2 units in the last place, and 2^-1074: Taylor's series to degree 13 at x - n log 2, times 2^n."""
    if x != lanes:
        return None

    def exp(x):
        held = min(max(x, -800.0), 800.0)
        n = _nearest(held * 1.4426950408889634)
        # log 2 in two parts, of which the first has 21 zero bits at its end: n times it is exact.
        r = (held - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10
        p = r * (1 / 6227020800) + 1 / 479001600
        p = p * r + 1 / 39916800
        p = p * r + 1 / 3628800
        p = p * r + 1 / 362880
        p = p * r + 1 / 40320
        p = p * r + 1 / 5040
        p = p * r + 1 / 720
        p = p * r + 1 / 120
        p = p * r + 1 / 24
        p = p * r + 1 / 6
        p = p * r + 0.5
        # In two factors: 2^n itself may be beyond what a double holds, on either side.
        half = _nearest(n * 0.5)
        return _where_nan(x, (1.0 + (r + r * r * p)) * _power_of_two(half) * _power_of_two(n - half))

    return exp


# ------------------------------------------------------------------- vectors


def _element(context, builder, kind, value, index, index_type):
    """Where an element lies; an index from the end is allowed, one outside raises IndexError."""
    array = cgutils.create_struct_proxy(kind)(context, builder, value)
    index = context.cast(builder, index, types.unliteral(index_type), types.intp)
    wrapped = builder.add(index, array.size)
    index = builder.select(builder.icmp_signed("<", index, index.type(0)), wrapped, index)
    cgutils.do_boundscheck(context, builder, index, array.size, 0)
    return builder.gep(array.data, [index])


@infer_global(operator.getitem)
class _GetTemplate(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 2 and args[0] == lanes_array and isinstance(args[1], types.Integer):
            return signature(lanes, *args)
        return None


@lower_builtin(operator.getitem, LanesArray, types.Integer)
def _get(context, builder, sig, args):
    return builder.load(_element(context, builder, sig.args[0], args[0], args[1], sig.args[1]), align=_LINE)


@infer_global(operator.setitem)
class _SetTemplate(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 3 and args[0] == lanes_array and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], args[1], lanes) if args[2] == lanes or _is_number(args[2]) else None
        return None


@lower_builtin(operator.setitem, LanesArray, types.Integer, Lanes)
def _set(context, builder, sig, args):
    builder.store(args[2], _element(context, builder, sig.args[0], args[0], args[1], sig.args[1]), align=_LINE)
    return context.get_dummy_value()


@infer_global(len)
class _LenTemplate(AbstractTemplate):
    def generic(self, args, kws):
        return signature(types.intp, lanes_array) if tuple(args) == (lanes_array,) else None


@lower_builtin(len, LanesArray)
def _len(context, builder, sig, args):
    return cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0]).size


@overload_attribute(LanesArray, "shape")
def _shape(array):
    return lambda array: (len(array),)


# --------------------------------------------------------- for the loops alone


@_intrinsic
def _as_lanes(typingctx, array):
    def codegen(context, builder, sig, args):
        source = context.make_array(sig.args[0])(context, builder, args[0])
        out = cgutils.create_struct_proxy(lanes_array)(context, builder)
        out.data = builder.bitcast(source.data, _VECTOR.as_pointer())
        out.size = builder.extract_value(source.shape, 0)
        return out._getvalue()

    return lanes_array(array), codegen


@_intrinsic
def _add_truncated(typingctx, sums, j, x, factor):
    def codegen(context, builder, sig, args):
        array = context.make_array(sig.args[0])(context, builder, args[0])
        row = builder.gep(builder.bitcast(array.data, _WHOLE.as_pointer()), [args[1]])
        # Not a product with 0: x may be no number there.
        used = builder.fcmp_ordered("!=", args[3], _all(0.0))
        scaled = builder.select(used, builder.fmul(args[2], args[3]), _all(0.0))
        builder.store(builder.add(builder.load(row, align=_LINE), builder.fptosi(scaled, _WHOLE)), row, align=_LINE)
        return context.get_dummy_value()

    return types.none(sums, types.intp, lanes, lanes), codegen


#: ``side_by_side(array)``: an array of float64 (n, 8), C-contiguous and on a cache line, as a `LanesArray` of n.
side_by_side: Any = _as_lanes
#: ``add_truncated(sums, j, x, factor)`` adds x times factor, truncated toward zero, to row j of int64 sums (n, 8) that
#: lie so too; lanes with factor 0 add nothing.
add_truncated: Any = _add_truncated
