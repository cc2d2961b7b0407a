"""Mutations of the differential fuzzer's templates: other sizes, types, attributes, optional inputs and values.

Whether a mutant is a correct problem is ONNX Runtime's to say: what it refuses has to be refused, or run, without a crash."""
import functools

import numpy as np
import onnx
from onnx import helper

import templates
from problems import ODD, is_tensor

SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 64, 65, 100, 129, 257)
FLOATS = [np.dtype(kind) for kind in (np.float32, np.float64, np.float16)]
INTEGERS = [np.dtype(kind) for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)]
MOST = 40_000  # elements of an input that a mutation makes


def values_like(r, old, shape, dtype=None):
    """Values of the kind that `old` has, in another shape or type."""
    return np.asarray(drawn(r, old, tuple(int(size) for size in shape), dtype))


def drawn(r, old, shape, dtype):
    dtype = np.dtype(dtype or old.dtype)
    count = int(np.prod(shape))
    if old.dtype.kind in "OUS" or old.dtype in ODD or old.dtype.kind in "bc":
        flat = old.flatten() if old.size else np.zeros(1, old.dtype)
        return flat[r.integers(0, flat.size, count)].reshape(shape).astype(dtype)
    if old.dtype.kind in "iu" and dtype.kind == old.dtype.kind:
        flat = old.flatten() if old.size else np.arange(3)
        return flat[r.integers(0, flat.size, count)].reshape(shape).astype(dtype)
    finite = old[np.isfinite(old)] if old.size else np.zeros(1)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-2.0, 2.0)
    low, high = max(low, -1e4), min(high, 1e4)
    if low > high:
        low, high = -2.0, 2.0
    if low == high:
        # Scales and variances stay positive.
        low, high = (low, high) if r.random() < 0.5 else (high / 2, high * 2) if high > 0 else (-abs(high) - 1, abs(high) + 1)
    if dtype.kind in "iu":
        low = int(np.clip(np.ceil(low), 0 if dtype.kind == "u" else -100, 100))
        return r.integers(low, max(int(np.clip(np.floor(high), -100, 100)), low + 1) + 1, shape).astype(dtype)
    # Multiples of 1/8 where there are enough of them: sums of such are exact.
    if high - low >= 1:
        return (r.integers(int(np.ceil(low * 8)), int(np.floor(high * 8)) + 1, shape) / 8).astype(dtype)
    return r.uniform(low, high, shape).astype(dtype)


def tensors(t):
    return [i for i, slot in enumerate(t.slots) if is_tensor(slot)]


def integers(t):
    """Slots that say sizes, axes or positions."""
    return [i for i in tensors(t) if t.slots[i].dtype.kind in "i" and 0 < t.slots[i].size <= 16]


def resize(r, t):
    """One size becomes another wherever it occurs: in shapes, in multiples, in attributes of the same value."""
    sizes = sorted({size for i in tensors(t) for size in t.slots[i].shape})
    if not sizes:
        return
    old, new = int(r.choice(sizes)), int(r.choice(SIZES))
    factors = {old * k: new * k for k in ((1, 2, 3, 4, 6, 8) if r.random() < 0.5 and old > 1 else (1,))}
    loose = r.random() < 0.3

    def other(size):
        return factors.get(size, size) if not loose or r.random() < 0.7 else size
    for i in tensors(t):
        shape = [other(size) for size in t.slots[i].shape]
        if shape != list(t.slots[i].shape) and np.prod(shape) <= MOST:
            t.slots[i] = values_like(r, t.slots[i], shape)
    if old > 2 or r.random() < 0.3:
        for name, attribute in t.attributes.items():
            if attribute.type == onnx.AttributeProto.INT and attribute.i in factors and not is_flag(t.name, name) and r.random() < 0.6:
                t.attributes[name] = helper.make_attribute(name, factors[attribute.i])


def reshape(r, t):
    """One axis of one input becomes 1 or is dropped, or there is one more: broadcasting."""
    chosen = tensors(t)
    if not chosen:
        return
    i = int(r.choice(chosen))
    shape = list(t.slots[i].shape)
    kind = r.integers(4)
    if kind == 0 and shape:
        shape[r.integers(len(shape))] = 1
    elif kind == 1 and shape:
        shape = shape[1:]
    elif kind == 2 and len(shape) < 6:
        shape = [int(r.choice((1, 1, 2))), *shape]
    elif kind == 3:
        shape = [] if r.random() < 0.5 else [1]
    if np.prod(shape) <= MOST:
        t.slots[i] = values_like(r, t.slots[i], shape)


def rank(r, t):
    """Every input of the first one's rank has one axis more or less."""
    chosen = tensors(t)
    if not chosen:
        return
    first = t.slots[chosen[0]].ndim
    if first == 0:
        return
    axis, size, more = int(r.integers(first)), int(r.choice((0, 1, 2, 3))), r.random() < 0.6 and first < 6
    for i in chosen:
        if t.slots[i].ndim == first:
            shape = list(t.slots[i].shape)
            shape[axis:axis + (0 if more else 1)] = [size] if more else []
            if np.prod(shape) <= MOST:
                t.slots[i] = values_like(r, t.slots[i], shape)


def retype(r, t):
    """One element type becomes another in every input that has it."""
    found = sorted({t.slots[i].dtype.str for i in tensors(t) if t.slots[i].dtype in FLOATS + INTEGERS or t.slots[i].dtype == np.bool_})
    if not found:
        return
    old = np.dtype(found[r.integers(len(found))])
    family = FLOATS if old in FLOATS and r.random() < 0.8 else INTEGERS if old in INTEGERS and r.random() < 0.8 else FLOATS + INTEGERS + [np.dtype(bool)]
    new = family[r.integers(len(family))]
    alone = r.random() < 0.2
    for i in tensors(t):
        if t.slots[i].dtype == old and (not alone or r.random() < 0.5):
            value = np.abs(t.slots[i]) if new.kind == "u" and old.kind != "b" else t.slots[i]
            with np.errstate(all="ignore"):
                t.slots[i] = value.astype(new)
    for name in ("to", "dtype", "output_dtype"):
        attribute = t.attributes.get(name)
        if attribute is not None and attribute.i == helper.np_dtype_to_tensor_dtype(old):
            t.attributes[name] = helper.make_attribute(name, helper.np_dtype_to_tensor_dtype(new))


@functools.cache
def is_flag(operator, name):
    return {template.attributes[name].i for template in templates.corpus()[operator] if name in template.attributes} <= {0, 1}


def attribute(r, t):
    """An attribute goes, comes from another template of the operator, or has another value."""
    kin = templates.corpus()[t.name]
    kind = r.random()
    if kind < 0.3 and t.attributes:
        del t.attributes[sorted(t.attributes)[r.integers(len(t.attributes))]]
        return
    if kind < 0.6:
        other = kin[r.integers(len(kin))]
        if other.attributes:
            name = sorted(other.attributes)[r.integers(len(other.attributes))]
            t.attributes[name] = other.attributes[name]
        return
    if not t.attributes:
        return
    name = sorted(t.attributes)[r.integers(len(t.attributes))]
    old = t.attributes[name]
    rank_ = max((t.slots[i].ndim for i in tensors(t)), default=1)
    if old.type == onnx.AttributeProto.INT and is_flag(t.name, name) and name not in ("axis", "group", "k", "batch_axis", "time_axis", "p", "num_groups"):
        t.attributes[name] = helper.make_attribute(name, 1 - old.i)
    elif old.type == onnx.AttributeProto.INT:
        t.attributes[name] = helper.make_attribute(name, int(r.choice((old.i - 1, old.i + 1, 0, 1, 2, -1, old.i - rank_, old.i + rank_))))
    elif old.type == onnx.AttributeProto.INTS and len(old.ints):
        values = list(old.ints)
        at = r.integers(len(values))
        values[at] = int(r.choice((values[at] + 1, values[at] - 1, 0, 1, 2, 3, values[at] - rank_)))
        if name in ("axes", "perm") and r.random() < 0.5:
            values = [int(value) for value in r.permutation(values)]
        t.attributes[name] = helper.make_attribute(name, values)
    elif old.type == onnx.AttributeProto.FLOAT:
        t.attributes[name] = helper.make_attribute(name, float(r.choice((0.0, 1.0, 0.5, -0.5, 2.0, old.f * 2, -old.f, 1e-3))))


def optional(r, t):
    """An input goes, or comes from another template of the operator."""
    if r.random() < 0.5 and t.slots:
        i = r.integers(len(t.slots))
        t.slots[i] = None
        t.types[i] = None
        return
    kin = templates.corpus()[t.name]
    other = kin[r.integers(len(kin))]
    if not other.slots:
        return
    i = int(r.integers(len(other.slots)))
    while len(t.slots) <= i:
        t.slots.append(None)
        t.types.append(None)
    t.slots[i], t.types[i] = other.slots[i], other.types[i]


def repeat(r, t):
    """Variadic operators: one input more or less."""
    if r.random() < 0.5 and len(t.slots) > 1:
        t.slots.pop()
        t.types.pop()
    elif t.slots:
        t.slots.append(t.slots[-1])
        t.types.append(t.types[-1])


def outputs(r, t):
    kin = templates.corpus()[t.name]
    t.outputs = max([1, *(other.outputs for other in kin)]) if r.random() < 0.5 else int(r.integers(1, t.outputs + 1)) if t.outputs else 1


def whole(r, t):
    """Numbers in an input that says sizes, axes or positions."""
    chosen = integers(t)
    if not chosen:
        return
    i = int(r.choice(chosen))
    values = np.array(t.slots[i])
    at = tuple(r.integers(values.shape)) if values.ndim else ()
    rank_ = max(t.slots[k].ndim for k in tensors(t))
    old, bounds = int(values[at]), np.iinfo(values.dtype)
    values[at] = np.clip(int(r.choice((old // 2 + 1, old - 1, old // 2, 0, 1, 2, -1, old // 2 - rank_, old + 1 if old < bounds.max else 0))), bounds.min, bounds.max)
    if r.random() < 0.2:
        values = values.flatten()[r.permutation(values.size)].reshape(values.shape)
    t.slots[i] = values


def special(r, t):
    """Numbers at the ends of a type's range."""
    chosen = [i for i in tensors(t) if t.slots[i].size and t.slots[i].dtype.kind in "fiu"]
    if not chosen:
        return
    i = int(r.choice(chosen))
    values = t.slots[i].copy()
    kind = values.dtype.kind
    if kind == "f":
        value = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-6, 300.0, -300.0)[r.integers(8)]
    else:
        bounds = np.iinfo(values.dtype)  # of bytes: sums of larger ones overflow, and sizes take all memory
        value = (0, 1, min(bounds.max, 200), max(bounds.min, -200))[r.integers(4)]
    flat = values.reshape(-1)
    flat[r.integers(0, flat.size, 1 + r.integers(min(3, flat.size)))] = value
    t.slots[i] = values


def constant_values(r, t):
    """All elements of an input are one number: what folds, and what passes look for."""
    chosen = [i for i in tensors(t) if t.slots[i].dtype.kind in "fiu"]
    if chosen:
        i = int(r.choice(chosen))
        scale = t.slots[i].dtype.kind == "f" and t.slots[i].size and t.slots[i].min() > 0
        t.slots[i] = np.full(t.slots[i].shape, r.choice((1, 1, 2) if scale else (0, 1, 1, 2)), t.slots[i].dtype)


def fresh(r, t):
    """Other values of the same kind."""
    for i in tensors(t):
        if t.slots[i].dtype in FLOATS:
            t.slots[i] = values_like(r, t.slots[i], t.slots[i].shape)


def opset(r, t):
    """Another opset whose operator is the same version, or another one."""
    if t.domain:
        return
    t.opset = int(r.choice(range(7, 29)) if r.random() < 0.3 else max(7, t.opset + r.integers(0, 4)))
    t.version = t.opset


STEPS = (resize, resize, resize, resize, reshape, reshape, rank, retype, retype, attribute, attribute, attribute, optional, optional, repeat, outputs, whole, whole,
         special, constant_values, opset)


def mutate(r, template, most=4):
    """A changed copy; its values are other ones, too."""
    t = template.copy()
    if r.random() < 0.8:
        fresh(r, t)
    for _ in range(int(r.integers(0, most + 1))):
        STEPS[r.integers(len(STEPS))](r, t)
    return t
