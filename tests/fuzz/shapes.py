"""Graphs that compute the shapes they use, as exporters write them, run with several sizes of their open dimensions."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

import mutations
from problems import Problem

SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8)
FIXED = (1, 2, 3, 4, 6, 8)
RUNS = 4
MOST_ELEMENTS = 4000


class Shapes:
    """A size is an array: its number in each of the runs. Every step is valid in all of them."""

    def __init__(self, r):
        self.r = r
        self.nodes, self.held, self.inputs = [], {}, []
        self.tensors = {}  # float32, by name: a list of sizes
        self.scalars = {}  # int64 of shape [], by name: the number in each run
        open_sizes = [np.array(r.choice(SIZES, RUNS)) for _ in range(int(r.integers(1, 4)))]
        for _ in range(int(r.integers(1, 4))):
            self.add_input([self.pick(open_sizes) if r.random() < 0.6 else self.fixed() for _ in range(int(r.integers(1, 5)))])

    def pick(self, choices):
        choices = list(choices)
        return choices[int(self.r.integers(len(choices)))]

    def fixed(self, size=None):
        return np.full(RUNS, self.pick(FIXED) if size is None else size)

    def add_input(self, dims):
        name = f"x{len(self.inputs)}"
        # A name that stands in two places may be two sizes.
        said = [int(dim[0]) if (dim == dim[0]).all() and self.r.random() < 0.8 else self.pick(("N", "T", "C", None, f"{name}_{axis}")) for axis, dim in enumerate(dims)]
        self.inputs.append((name, dims, said))
        self.tensors[name] = dims

    def node(self, operator, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"n{len(self.nodes)}", **attributes))
        return name

    def constant(self, value):
        name = f"c{len(self.held)}"
        self.held[name] = np.asarray(value)
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def small(self, dims):
        return (np.prod(np.array(dims, np.int64).reshape(-1, RUNS), axis=0) <= MOST_ELEMENTS).all()

    def add(self, name, dims):
        self.tensors[name] = [np.array(dim) for dim in dims]
        return name

    def some(self):
        names = list(self.tensors)
        return names[-1] if self.r.random() < 0.5 else self.pick(names)

    # Numbers that follow from shapes.

    def size_node(self, size, without=None):
        """A scalar or a list of one element with the size, computed in some way; None where nothing has it."""
        found = [(name, axis) for name, dims in self.tensors.items() for axis, dim in enumerate(dims) if np.array_equal(dim, size) and name != without]
        found += [(name, None) for name, number in self.scalars.items() if np.array_equal(number, size)]
        if (size == size[0]).all() and (not found or self.r.random() < 0.4):
            return self.constant(np.int64(size[0]))
        if not found:
            return None
        name, axis = self.pick(found)
        if axis is None:
            return name
        rank = len(self.tensors[name])
        if self.r.random() < 0.3:
            cut = self.node("Slice", [self.node("Shape", [name]), self.ints(axis), self.ints(axis + 1 if self.r.random() < 0.7 or axis + 1 < rank else 2**31)])
            return self.node("Squeeze", [cut, self.ints(0)]) if self.r.random() < 0.7 else self.node("ReduceProd", [cut], keepdims=0)
        if self.r.random() < 0.2:
            return self.node("Squeeze", [self.node("Shape", [name], start=axis, end=axis + 1), self.ints(0)])
        made = self.node("Gather", [self.node("Shape", [name]), self.constant(np.int64(axis if self.r.random() < 0.7 else axis - rank))], axis=0)
        self.scalars[made] = np.array(size)
        return made

    def arithmetic(self):
        """One more scalar, from others."""
        source = self.some()
        if not self.tensors[source]:
            return
        a = self.size_node(self.pick(self.tensors[source]))
        if a is None:
            return
        number = self.scalars.get(a, np.full(RUNS, self.held.get(a, 0)))
        if a not in self.scalars and a not in self.held:
            return
        operator = self.pick(("Add", "Sub", "Mul", "Div", "Add"))
        if self.scalars and self.r.random() < 0.4:
            b = self.pick(self.scalars)
            other = self.scalars[b]
        else:
            value = int(self.pick((1, 2, 3, 4, -1)))
            b, other = self.constant(np.int64(value)), np.full(RUNS, value)
        if operator == "Div" and (other <= 0).any():
            return
        made = {"Add": number + other, "Sub": number - other, "Mul": number * other, "Div": np.trunc(number / np.where(other == 0, 1, other)).astype(np.int64)}[operator]
        if (np.abs(made) > 5000).any():
            return
        self.scalars[self.node(operator, [a, b])] = made

    def list_of(self, parts):
        """An int64 list of the scalars and numbers."""
        lists = []
        for part in parts:
            if isinstance(part, int):
                lists.append(self.ints(part))
            elif part in self.held and self.r.random() < 0.7:
                lists.append(self.ints(int(self.held[part])))
            else:
                lists.append(self.node("Unsqueeze", [part, self.ints(0)]) if self.r.random() < 0.7 else self.node("Reshape", [part, self.ints(1)]))
        made = self.node("Concat", lists, axis=0) if len(lists) > 1 or self.r.random() < 0.5 else lists[0]
        choice = self.r.random()
        if choice < 0.1:
            made = self.node("Cast", [self.node("Cast", [made], to=TensorProto.INT32)], to=TensorProto.INT64)
        return made

    # Steps.

    def reshape(self):
        x = self.some()
        dims = self.tensors[x]
        target, at = [], 0
        while at < len(dims):
            dim, choice = dims[at], self.r.random()
            if choice < 0.25 and at + 1 < len(dims):
                target.append(dim * dims[at + 1])
                at += 2
                continue
            if choice < 0.5 and (dim % 2 == 0).all():
                target += [np.full(RUNS, 2), dim // 2] if self.r.random() < 0.5 else [dim // 2, np.full(RUNS, 2)]
            elif choice < 0.6:
                target += [np.ones(RUNS, np.int64), dim]
            elif choice < 0.7 and (dim == 1).all():
                pass
            else:
                target.append(dim)
            at += 1
        if not target or len(target) > 6:
            return
        inferred, parts = None, []
        for i, size in enumerate(target):
            rest = np.prod(np.array([other for k, other in enumerate(target) if k != i] or [np.ones(RUNS)]), axis=0)
            if inferred is None and (rest > 0).all() and self.r.random() < 0.35:
                inferred = i
                parts.append(-1)
                continue
            # A size of 0 copies, unless something says otherwise.
            if (size == 0).any() and not (i < len(dims) and np.array_equal(dims[i], size)):
                return
            part = self.size_node(size)
            if part is None:
                if inferred is not None or not (rest > 0).all():
                    return
                inferred = i
                part = -1
            parts.append(part)
        self.add(self.node("Reshape", [x, self.list_of(parts)]), target)

    def expand(self):
        x = self.some()
        dims = self.tensors[x]
        target = [self.pick([size for sizes in self.tensors.values() for size in sizes] or [self.fixed()]) if (dim == 1).all() else dim for dim in dims]
        for _ in range(int(self.r.integers(3))):
            if len(target) < 5:
                target.insert(0, self.fixed())
        if not target or not self.small(target):
            return
        parts = []
        for i, size in enumerate(target):
            mine = i >= len(target) - len(dims) and np.array_equal(dims[i - len(target) + len(dims)], size)
            choice = self.r.random()
            part = 1 if mine and choice < 0.2 else -1 if mine and choice < 0.4 else self.size_node(size)
            if part is None:
                return
            parts.append(part)
        made = self.list_of(parts)
        if -1 in parts:  # as PyTorch writes expand(-1, ...)
            ones = self.node("ConstantOfShape", [self.ints(len(parts))], value=numpy_helper.from_array(np.array([1], np.int64)))
            made = self.node("Where", [self.node("Equal", [made, self.node("Mul", [ones, self.constant(np.int64(-1))])]), ones, made])
        self.add(self.node("Expand", [x, made]), target)

    def slice(self):
        x = self.some()
        dims = self.tensors[x]
        if not dims:
            return
        axis = int(self.r.integers(len(dims)))
        if self.r.random() < 0.5:
            start, end, size = 0, self.size_node(dims[axis]), dims[axis]
        else:
            candidates = [(name, number) for name, number in self.scalars.items() if (number >= 0).all()]
            if not candidates:
                return
            end, number = self.pick(candidates)
            start = int(self.r.integers(2))
            size = np.maximum(np.minimum(number, dims[axis]) - np.minimum(start, dims[axis]), 0)
        if end is None:
            return
        self.add(self.node("Slice", [x, self.ints(start), self.list_of([end]), self.ints(axis)]), [size if i == axis else dim for i, dim in enumerate(dims)])

    def counted(self):
        """A Range or a fill as long as a size."""
        candidates = [(name, number) for name, number in self.scalars.items() if (number >= 0).all() and (number < 200).all()]
        if not candidates:
            return
        name, number = self.pick(candidates)
        if self.r.random() < 0.5:
            made = self.node("Range", [self.constant(np.int64(0)), name, self.constant(np.int64(1))])
            self.add(self.node("Cast", [made], to=TensorProto.FLOAT), [number])
        else:
            other = self.fixed()
            fill = numpy_helper.from_array(np.array([0.5], np.float32))
            self.add(self.node("ConstantOfShape", [self.list_of([name, int(other[0])])], value=fill), [number, other])

    def turn(self):
        x = self.some()
        dims = self.tensors[x]
        perm = [int(i) for i in self.r.permutation(len(dims))]
        if dims:
            self.add(self.node("Transpose", [x], perm=perm), [dims[i] for i in perm])

    def change_rank(self):
        x = self.some()
        dims = self.tensors[x]
        ones = [axis for axis, dim in enumerate(dims) if (dim == 1).all()]
        if ones and self.r.random() < 0.5:
            axis = self.pick(ones)
            self.add(self.node("Squeeze", [x, self.ints(axis)]), dims[:axis] + dims[axis + 1:])
        elif len(dims) < 5:
            axis = int(self.r.integers(len(dims) + 1))
            self.add(self.node("Unsqueeze", [x, self.ints(axis)]), [*dims[:axis], np.ones(RUNS, np.int64), *dims[axis:]])

    def combine(self):
        """An operator of two tensors that broadcast, or a part that is appended."""
        x, y = self.some(), self.pick(self.tensors)
        a, b = self.tensors[x], self.tensors[y]
        if len(a) == len(b) and a and self.r.random() < 0.4:
            differing = [axis for axis in range(len(a)) if not np.array_equal(a[axis], b[axis])]
            axis = self.pick(range(len(a))) if not differing else differing[0]
            if len(differing) < 2:
                dims = [dim + b[i] if i == axis else dim for i, dim in enumerate(a)]
                if self.small(dims):
                    self.add(self.node("Concat", [x, y], axis=axis), dims)
                return
        rank = max(len(a), len(b))
        left = [np.ones(RUNS, np.int64)] * (rank - len(a)) + a
        right = [np.ones(RUNS, np.int64)] * (rank - len(b)) + b
        dims = []
        for m, n in zip(left, right):
            if not ((m == n) | (m == 1) | (n == 1)).all():
                return
            dims.append(np.where(m == 1, n, m))
        if self.small(dims):
            self.add(self.node(self.pick(("Add", "Mul", "Sub", "Max")), [x, y]), dims)

    def product(self):
        x = self.some()
        dims = self.tensors[x]
        if len(dims) < 2 or not (dims[-1] == dims[-1][0]).all():
            return
        columns = self.pick(FIXED)
        weights = self.constant(self.r.standard_normal((int(dims[-1][0]), columns)).astype(np.float32))
        self.add(self.node("MatMul", [x, weights]), [*dims[:-1], np.full(RUNS, columns)])

    def each(self):
        x = self.some()
        self.add(self.node(self.pick(("Relu", "Sigmoid", "Neg", "Identity")), [x]), self.tensors[x])


STEPS = ("reshape",) * 5 + ("expand",) * 3 + ("slice",) * 2 + ("counted", "turn", "turn", "change_rank", "combine", "combine", "combine", "product", "each") + ("arithmetic",) * 3


def computed_shapes(seed):
    """A Problem of several runs; None if nothing was made."""
    r = np.random.default_rng([seed, 6])
    g = Shapes(r)
    for _ in range(int(r.integers(4, 30))):
        getattr(g, g.pick(STEPS))()
    read = {name for node in g.nodes for name in node.input}
    outputs = [name for name in g.tensors if name not in read and not name.startswith("x")]
    outputs += [name for name in g.scalars if name not in read and r.random() < 0.5]
    inner = [name for name in g.tensors if name in read and not name.startswith("x")]
    if inner and r.random() < 0.5:
        outputs.append(g.pick(inner))
    if not outputs:
        return None
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, said) for name, _, said in g.inputs]
    made = [helper.make_tensor_value_info(name, TensorProto.INT64 if name in g.scalars else TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(g.nodes, "shapes", infos, made, [numpy_helper.from_array(value, name) for name, value in g.held.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    like = np.array([-2.0, 2.0], np.float32)
    feeds = [{name: mutations.values_like(r, like, [int(dim[run]) for dim in dims]) for name, dims, _ in g.inputs} for run in range(RUNS)]
    return Problem(f"shapes {seed}", model, feeds)
