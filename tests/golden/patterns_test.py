"""The patterns that passes look for (docs/reference/passes.md), written out in every way that a converter might, and in
graphs that only look like them: other ranks, axes and orders, operands that are not constant, values with several readers.
Compared with ONNX Runtime without its optimizations.

TENON_PATTERNS=SEED:MODELS makes other models than the fixed ones.
"""
import os

import numpy as np
import onnx
import pytest

import driver
from chains_test import Chain, by_onnxruntime, check

SEED, MODELS = (int(text) for text in os.environ.get("TENON_PATTERNS", "1:1500").split(":"))


class Pattern(Chain):
    def __init__(self, seed):
        super().__init__(seed, np.float32)
        self.opset = int(self.pick(13, 17, 18, 20))
        # As a converter writes it: parameters are constants, scalars have no dimensions, nobody else reads a value.
        self.regular = self.rng.random() < 0.6

    def chance(self, probability):
        return self.rng.random() < probability

    def number(self, value, rank=None):
        """A constant of one element, of rank 0 to 2 where none is given."""
        rank = int(self.pick(0, 0, 0, 1, 2)) if rank is None else rank
        return self.constant(np.full((1,) * rank, value, self.dtype))

    def scalar(self, value):
        """Mostly a constant; sometimes one that only looks like it."""
        if self.regular:
            return self.number(value, 0)
        return self.number(value) if self.chance(0.9) else self.input((), np.asarray(value, self.dtype))

    def swap(self, op, a, b, **attributes):
        return self.node(op, [a, b] if self.chance(0.5) else [b, a], **attributes)

    def mean(self, x, rank, axis, op="ReduceMean", keepdims=1):
        axis = axis - rank if self.chance(0.5) else axis
        if self.opset >= 18 or (op == "ReduceSum" and self.opset >= 13):
            return self.node(op, [x, self.constant(np.array([axis]))], keepdims=keepdims)
        return self.node(op, [x], axes=[axis], keepdims=keepdims)

    def seen(self, name):
        """Somebody else reads the value, now and then."""
        if not self.regular and self.chance(0.06):
            self.outputs.append(name)
        return name

    def source(self, shape):
        """An input, or what a node makes of one."""
        x = self.input(shape)
        return x if self.chance(0.5) else self.node(self.pick("Neg", "Relu", "Tanh"), [x])

    def layer_norm(self):
        shape = [self.batch, *(int(self.pick(1, 2, 3, 5)) for _ in range(int(self.pick(0, 1, 1, 2)))), int(self.pick(1, 5, 8, 16))]
        rank = len(shape)
        x = self.source(shape)
        if self.chance(0.4):
            other = self.source(self.pick(shape, shape[1:], shape, [1] * rank))
            x = self.seen(self.swap("Add", x, other))
        if self.chance(0.3) and self.opset >= 17:
            axis = int(self.rng.integers(-rank, rank))
            if "N" in shape[axis if axis >= 0 else axis + rank:]:
                axis = -1
            tail = [dim for dim in shape[axis if axis >= 0 else axis + rank:]]
            inputs = [x, self.operand(tail)]
            if self.chance(0.6):
                inputs.append(self.operand(tail))
            return self.node("LayerNormalization", inputs, axis=axis)
        axis = rank - 1 if self.regular or self.chance(0.7) else int(self.rng.integers(0, rank))
        d = self.seen(self.node("Sub", [x, self.seen(self.mean(x, rank, axis))]))
        if self.chance(0.1):
            d2 = self.node("Sub", [x, self.mean(x, rank, axis)])
        else:
            d2 = d
        square = self.node("Mul", [d2, d2]) if self.chance(0.5) else self.node("Pow", [d2, self.scalar(2)])
        variance = self.seen(self.mean(square, rank, axis))
        root = self.node("Sqrt", [self.swap("Add", variance, self.scalar(self.pick(1e-5, 1e-12, 0.1)))])
        y = self.node("Div", [d, root]) if self.chance(0.7) else self.swap("Mul", d, self.node("Reciprocal", [root]))
        last = shape[-1]
        if self.chance(0.9):
            y = self.swap("Mul", self.seen(y), self.operand(self.pick((last,), (last,), (1, last), (1,), (), [1] * rank + [last])))
        if self.chance(0.8):
            y = self.swap("Add", self.seen(y), self.operand(self.pick((last,), (last,), (1, last), (1,), ())))
        return y

    def moment_norm(self):
        shape = [self.batch, *(int(self.pick(2, 3, 4)) for _ in range(int(self.pick(1, 2)))), int(self.pick(4, 8))]
        rank, axis = len(shape), int(self.rng.integers(1, len(shape)))
        x = self.source(shape)
        keep = 1
        if self.chance(0.5):
            mean, squares = self.mean(x, rank, axis), self.mean(self.node("Mul", [x, x]), rank, axis)
        else:
            n = self.number(1 / shape[axis], 0)
            mean = self.swap("Mul", self.mean(x, rank, axis, "ReduceSum", keep), n)
            squares = self.swap("Mul", self.mean(self.node("Mul", [x, x]), rank, axis, "ReduceSum", keep), n)
        variance = self.node("Sub", [squares, self.node("Mul", [mean, mean])])
        if self.chance(0.5):
            variance = self.node("Relu", [variance]) if self.chance(0.5) else self.swap("Max", variance, self.number(0, 0))
        root = self.node("Sqrt", [self.swap("Add", variance, self.scalar(self.pick(1e-3, 0.01)))])
        along = [1] * (rank - axis - 1)
        scale = self.operand((shape[axis], *along))
        inverse = self.node("Div", [scale, root]) if self.chance(0.4) else self.swap("Mul", self.node("Reciprocal", [root]), scale)
        style = self.pick(0, 1)
        if style == 0:
            y = self.swap("Mul", self.node("Sub", [x, mean]), inverse)
            return self.swap("Add", y, self.operand((shape[axis], *along)))
        shift = self.node("Sub", [self.operand((shape[axis], *along)), self.node("Mul", [mean, inverse])])
        return self.swap("Add", self.node("Mul", [x, inverse]), shift)

    def attention(self):
        heads, depth = int(self.pick(1, 2, 4)), int(self.pick(2, 4, 8))
        value_depth = depth if self.chance(0.7) else int(self.pick(2, 4))
        queries = int(self.pick(1, 3, 6))
        keys = queries if self.chance(0.6) else int(self.pick(2, 5))
        batch = self.batch
        def projected(x, columns, width):
            y = self.node("MatMul", [x, self.operand((columns, width))])
            return self.swap("Add", y, self.operand((width,))) if self.chance(0.7) else y
        packed = self.chance(0.4)
        if packed:
            keys, value_depth = queries, depth
            x = self.source([batch, queries, 8])
            q, k, v = (projected(x, 8, heads * depth) for _ in range(3))
        else:
            q, k = self.source([batch, queries, heads * depth]), self.source([batch, keys, heads * depth])
            v = self.source([batch, keys, heads * value_depth])
        def split(x, length, width, perm):
            dims = self.pick([0, 0, heads, width], [0, -1, heads, width], [-1, length, heads, width])
            return self.node("Transpose", [self.node("Reshape", [x, self.constant(np.array(dims))])], perm=perm)
        scale = self.pick(1 / np.sqrt(depth), 0.5, 0.25)
        where = self.pick("scores", "scores", "q", "none", "both")
        q = split(q, queries, depth, [0, 2, 1, 3])
        if self.chance(0.5):
            k = split(k, keys, depth, [0, 2, 3, 1])
        else:
            k = self.node("Transpose", [split(k, keys, depth, [0, 2, 1, 3])], perm=[0, 1, 3, 2])
        v = split(v, keys, value_depth, [0, 2, 1, 3])
        by = lambda x, factor: self.swap("Mul", x, self.scalar(factor)) if self.chance(0.5) else self.node("Div", [x, self.scalar(1 / factor)])
        if where == "q":
            q = by(q, scale)
        if where == "both":
            q, k = by(q, np.sqrt(scale)), by(k, np.sqrt(scale))
        scores = self.seen(self.node("MatMul", [q, k]))
        if where == "scores":
            scores = by(scores, scale)
        if self.chance(0.6):
            shape = self.pick((queries, keys), (keys,), (1, 1, queries, keys), (batch, 1, 1, keys), (batch, heads, queries, keys), (heads, 1, 1), (batch, 1, queries, keys), ())
            mask = self.operand(shape) if batch not in shape or batch != "N" else self.input(shape)
            scores = self.seen(self.swap("Add", scores, mask))
        weights = self.seen(self.node("Softmax", [scores], axis=int(self.pick(-1, -1, 3))))
        y = self.node("Transpose", [self.node("MatMul", [weights, v])], perm=[0, 2, 1, 3])
        y = self.node("Reshape", [y, self.constant(np.array(self.pick([0, 0, heads * value_depth], [0, -1, heads * value_depth], [0, 0, -1])))])
        return self.node("MatMul", [y, self.operand((heads * value_depth, 5))]) if self.chance(0.4) else y

    def products(self):
        """Three products of one input."""
        x = self.source([self.batch, int(self.pick(1, 4)), 8])
        results = []
        for _ in range(3):
            width = int(self.pick(8, 8, 8, 4))
            y = self.node("MatMul", [x, self.operand((8, width))])
            if self.chance(0.6):
                y = self.swap("Add", y, self.operand(self.pick((width,), (width,), (1, width), (1,))))
            if self.chance(0.2):
                y = self.node("Relu", [y])
            results.append(self.seen(y))
        return self.node("Concat", results, axis=2)

    def lookup(self):
        rows, width = int(self.pick(3, 5)), int(self.pick(1, 4))
        name = self.fresh()
        kind = self.pick(np.int64, np.int32)
        shape = self.pick((self.batch, 1), (self.batch, 3, 1), (4, 1))
        self.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape))
        for run, batch in zip(self.feeds, self.batches):
            run[name] = self.rng.integers(-2, rows + 2, [batch if dim == "N" else dim for dim in shape]).astype(kind)
        row = np.arange(rows, dtype=kind)
        if self.chance(0.1):
            row = row[::-1].copy()
        hot = self.node("Cast", [self.swap("Equal", name, self.constant(row))], to=1)
        return self.node("MatMul", [self.seen(hot), self.operand((rows, width))])

    def shortcuts(self):
        shape = [self.batch, int(self.pick(3, 8, 9)), int(self.pick(1, 4, 5)), int(self.pick(1, 4))]
        x = self.source(shape)
        style = self.pick("scale", "adds", "views", "squeeze", "means", "moves", "casts", "twice")
        if style == "scale":  # x + x * s
            s = self.pick(lambda: self.node("Sigmoid", [self.node("GlobalAveragePool", [x])]), lambda: self.operand((shape[1], 1, 1)),
                          lambda: self.operand(()), lambda: self.node("Sigmoid", [x]), lambda: self.operand((1, 1, 1, 1, 1)))()
            return self.swap("Add", x, self.swap("Mul", x, s))
        if style == "adds":
            y = x
            for _ in range(3):
                y = self.seen(self.node(self.pick("Add", "Add", "Sub", "Mul"), [y, self.operand(self.pick((), (1,), (shape[1], 1, 1), (1, 1, 1, 1), shape[1:], (1, 1, 1, 1, 1)))]))
            return y
        if style == "views":
            flat = self.node("Reshape", [x, self.constant(np.array(self.pick([0, shape[1], -1], [0, 0, -1, 1], [0, 1, shape[1], -1], [-1, shape[3]])))])
            rank = {3: 3}.get(0, None)
            reshaped = self.graph.initializer[-1].dims[0]
            perm = [int(p) for p in self.rng.permutation(reshaped)]
            return self.node("Transpose", [flat], perm=perm)
        if style == "squeeze":
            pooled = self.node(self.pick("GlobalAveragePool", "GlobalMaxPool"), [x])
            axes = self.pick([2, 3], [3], [-1, -2], [2])
            y = self.node("Squeeze", [pooled, self.constant(np.array(axes))])
            y = self.node(self.pick("Relu", "Sigmoid", "HardSigmoid", "Neg"), [y])
            return self.swap("Mul", y, self.operand(self.pick((), (1,), (shape[1],) + (1,) * (2 - len(axes)))))
        if style == "means":
            rank = 4
            axes = [int(a) for a in self.pick([2, 3], [3, 2], [-1, -2], [2], [1, 2, 3], [-1])]
            op = self.pick("ReduceMean", "ReduceMax")
            keep = int(self.pick(1, 0))
            y = self.node(op, [x, self.constant(np.array(axes))], keepdims=keep) if self.opset >= 18 else self.node(op, [x], axes=axes, keepdims=keep)
            return self.node("Relu", [y])
        if style == "moves":
            first, second = ([int(p) for p in self.rng.permutation(4)] for _ in range(2))
            if self.chance(0.4):
                second = [int(p) for p in np.argsort(first)]
            y = self.seen(self.node("Transpose", [x], perm=first))
            y = y if self.chance(0.5) else self.node(self.pick("Relu", "Identity", "Neg"), [y])
            return self.node("Transpose", [y], perm=second)
        if style == "casts":
            size = self.node("Shape", [x])
            part = self.node("Slice", [size, self.constant(np.array([0])), self.constant(np.array([2]))])
            return self.node("Reshape", [x, self.node("Concat", [part, self.constant(np.array([-1]))], axis=0)])
        a, b = self.node("Relu", [x]), self.node("Relu", [x])
        return self.swap("Add", self.seen(a), self.seen(b))

    def build(self):
        self.batches = [int(self.pick(1, 2, 3))]
        self.batch = self.batches[0]
        if self.chance(0.5):
            self.batches += [int(b) for b in self.rng.choice([1, 2, 5], 2)]
            self.batch = "N"
        self.feeds = [{} for _ in self.batches]
        maker = self.pick(self.layer_norm, self.layer_norm, self.moment_norm, self.attention, self.attention, self.products, self.lookup, self.shortcuts, self.shortcuts)
        self.outputs.append(maker())
        for name in dict.fromkeys(self.outputs):
            self.graph.output.append(onnx.ValueInfoProto(name=name))
        model = onnx.ModelProto(ir_version=9, graph=self.graph)
        model.opset_import.add().version = self.opset
        return model.SerializeToString()

    def operand(self, shape, low=-1.0, high=1.0):
        if "N" in tuple(shape):
            return self.input(shape)
        if self.regular:
            return self.constant(self.values(tuple(shape), low, high))
        return super().operand(tuple(shape), low, high)


def test_patterns_give_what_their_operators_give(tmp_path):
    rng = np.random.default_rng(SEED)
    cases, oracles = [], {}
    for number in range(MODELS):
        pattern = Pattern(rng.integers(1 << 62))
        model, name = pattern.build(), f"pattern{number}"
        oracles[name] = by_onnxruntime(model, pattern.feeds)
        cases.append(driver.Case(name, model, pattern.feeds[0], [None], [(feed, [None]) for feed in pattern.feeds[1:]]))
    check(cases, oracles, tmp_path, [["--threads=2"]])


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
