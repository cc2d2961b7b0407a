"""Problems of the differential fuzzer: single nodes that are mutated templates, and graphs that grow node by node."""
import numpy as np
import onnx
from onnx import helper

import dressing
import mutations
import templates
from problems import ODD, Problem, is_tensor, model_of, node_of
from shapes import computed_shapes

# Values that a graph's nodes may have: larger ones overflow or take long.
LARGEST_VALUE, MOST_ELEMENTS = 1e4, 20_000
# What often stands behind an operator, and is fused with it.
FOLLOW = {
    "Conv": ("BatchNormalization", "Relu", "Add", "Clip", "Sigmoid", "Mul", "HardSwish", "LeakyRelu", "Conv", "MaxPool", "Concat", "PRelu", "Resize"),
    "ConvTranspose": ("BatchNormalization", "Relu", "Add", "Sigmoid", "Mul", "Conv"),
    "MatMul": ("Add", "Mul", "Div", "Softmax", "Gelu", "Relu", "Sigmoid", "Reshape", "Transpose", "MatMul", "Where"),
    "Gemm": ("Relu", "Sigmoid", "Tanh", "Gelu", "Gemm", "Softmax", "Add"),
    "Add": ("Relu", "LayerNormalization", "Gelu", "Add", "Mul", "Softmax", "ReduceMean", "RMSNormalization", "Where"),
    "Mul": ("Add", "Mul", "ReduceSum", "Sigmoid", "Sub"),
    "Transpose": ("Reshape", "MatMul", "Transpose", "Softmax", "Conv", "Squeeze", "Unsqueeze", "Gather", "Slice"),
    "Reshape": ("Transpose", "Reshape", "MatMul", "Add", "Softmax", "Expand", "Slice", "Concat"),
    "Slice": ("Concat", "Slice", "Mul", "Neg", "Sigmoid"),
    "Split": ("Concat", "Mul", "Sigmoid", "Add"),
    "Concat": ("Conv", "Reshape", "Slice", "Split", "Transpose"),
    "Sigmoid": ("Mul", "Add"), "Erf": ("Add", "Mul"), "Softmax": ("MatMul", "TopK", "ArgMax", "Mul", "Slice"), "Relu": ("Conv", "MaxPool", "Add", "GlobalAveragePool"),
    "QuantizeLinear": ("DequantizeLinear",), "DynamicQuantizeLinear": ("MatMulInteger", "ConvInteger"), "Cast": ("Add", "Mul", "Where", "Gather", "Cast", "MatMul"),
    "MatMulInteger": ("Cast", "Add"), "ConvInteger": ("Cast",), "Equal": ("Where", "Not", "And", "Cast"), "Less": ("Where", "And", "Cast"),
    "ReduceMean": ("Sub", "Add", "Mul", "Sqrt"), "Squeeze": ("Unsqueeze", "Add", "Concat"), "Unsqueeze": ("Add", "Mul", "Concat", "Expand"),
    "LSTM": ("Squeeze", "Transpose", "Reshape"), "GRU": ("Squeeze", "Transpose", "Reshape"), "Shape": ("Gather", "Slice", "Concat", "Cast"),
}
COMMON = tuple(sorted({"Conv", "MatMul", "Gemm", *FOLLOW, *(name for names in FOLLOW.values() for name in names)}))
STARTS = ([2, 9, 6, 5], [1, 16, 8, 8], [1, 3, 7, 7], [2, 8, 5, 5], [1, 33, 4, 6], [1, 8, 20], [2, 3, 8], [2, 5, 16], [1, 4, 32], [4, 2, 3], [3, 4], [2, 8], [5], [], [1, 1, 4], [2, 3, 5, 8], [1, 2, 3, 4, 5], [0, 3], [1, 12, 1, 1])
OPSETS = (11, 13, 14, 17, 17, 17, 18, 20, 21, 22, 23)
USUAL = tuple(map(np.dtype, (np.float32, np.int64, np.int32, np.uint8, np.int8, np.bool_)))
DECLARED = ("numbers", "numbers", "symbols", "own", "none", "rank")


def pick(r, choices):
    return choices[int(r.integers(len(choices)))]


def changed_sizes(r, feed):
    """The inputs with one size changed, wherever it occurs among them; None where there is no size."""
    sizes = sorted({size for value in feed.values() if is_tensor(value) for size in value.shape})
    if not sizes:
        return None
    old, new = pick(r, sizes), int(r.choice(mutations.SIZES))
    if old == new:
        new += 1
    first = r.random() < 0.3  # of the leading axis alone
    made = {}
    for name, value in feed.items():
        if not is_tensor(value):
            made[name] = value
            continue
        shape = [new if size == old and (not first or axis == 0) else size for axis, size in enumerate(value.shape)]
        if np.prod(shape) > mutations.MOST:
            return None
        made[name] = mutations.values_like(r, value, shape)
    return made


def runs(r, given, declared):
    """The feeds of one to three runs on one session."""
    feeds = [given]
    for _ in range(int(r.choice((0, 0, 1, 2)))):
        made = None if declared == "numbers" or r.random() < 0.2 else changed_sizes(r, given)
        feeds.append(made or {name: mutations.values_like(r, value, value.shape) if is_tensor(value) and value.dtype.kind == "f" else value
                              for name, value in given.items()})
    return feeds


def settings(r, problem):
    problem.threads = 1 + int(r.integers(2))
    problem.bound = r.random() < 0.3
    if r.random() < 0.12:
        problem.environment = {"TENON_CPU_ISA": pick(r, ("baseline", "avx2"))}
    return problem


def single(seed, oracle, operators=None):
    r = np.random.default_rng([seed, 1])
    corpus = templates.corpus()
    name = pick(r, operators or sorted(corpus))
    template = pick(r, corpus[name])
    for _ in range(4 if r.random() < 0.6 else 0):  # ONNX Runtime has kernels for few of the types
        if any(is_tensor(slot) and slot.dtype in USUAL for slot in template.slots[:1]):
            break
        template = pick(r, corpus[name])
    t = mutations.mutate(r, template)
    if t.operator == "Loop" and t.slots[:1] == [None]:  # nothing ends it where its condition stays
        return None
    names = ["" if slot is None else f"x{i}" for i, slot in enumerate(t.slots)]
    constant = r.choice((0.0, 0.3, 0.6, 1.0))
    given, held, types = {}, {}, {}
    for i, (slot, kind) in enumerate(zip(t.slots, t.types)):
        if slot is None:
            continue
        if is_tensor(slot) and r.random() < constant and (i > 0 or r.random() < 0.3):
            held[f"x{i}"] = slot
            continue
        given[f"x{i}"] = slot
        if kind is not None:
            types[f"x{i}"] = kind
    made = [f"y{i}" for i in range(max(1, t.outputs))]
    if len(made) > 1 and r.random() < 0.3:
        made[int(r.integers(len(made)))] = ""
    wanted = [name for name in made if name]
    if len(wanted) > 1 and r.random() < 0.3:
        del wanted[int(r.integers(len(wanted)))]
    declared = pick(r, DECLARED)
    nodes = [node_of(t, names, made, "asked")]
    wanted = dressing.around(r, nodes, held, wanted, t)
    versions = {t.domain: t.version} if t.domain else {}
    try:
        model = model_of(nodes, t.opset, versions, given, held, wanted, declared, types)
    except Exception:  # what protobuf cannot hold
        return None
    return settings(r, Problem(f"single {seed}", dressing.model(r, model), runs(r, given, declared)))


class Growth:
    """A graph with the value of each edge."""

    def __init__(self, r, oracle, operators):
        self.r, self.oracle = r, oracle
        self.corpus = templates.corpus()
        self.operators = operators
        self.opset = pick(r, OPSETS)
        self.nodes, self.values, self.given, self.held, self.versions = [], {}, {}, {}, {}
        self.used, self.order, self.last = set(), [], None
        for _ in range(int(r.choice((1, 1, 2)))):
            shape = pick(r, STARTS)
            kind = pick(r, (np.float32,) * 8 + (np.float16, np.float64, np.int64, np.int32, np.uint8, np.int8, np.bool_))
            self.add_input(mutations.values_like(r, np.array([-2.0, 2.0]), shape, kind) if kind != np.bool_ else r.integers(0, 2, shape).astype(bool))

    def add_input(self, value):
        name = f"x{len(self.given)}"
        self.given[name] = self.values[name] = value
        self.order.append(name)
        return name

    def template(self, value):
        """A template of an operator that may follow; one whose first input is like the value, if a few tries find it."""
        kind = self.r.random()
        follow = FOLLOW.get(self.last, ()) if kind < 0.45 else ()
        name = pick(self.r, self.operators or follow or (COMMON if kind < 0.8 else sorted(self.corpus)))
        if name not in self.corpus:
            return None
        found = None
        for _ in range(30):
            t = pick(self.r, self.corpus[name])
            if not t.domain and templates.since(name, "", t.opset) != templates.since(name, "", self.opset):
                continue
            first = next((slot for slot in t.slots if is_tensor(slot)), None)
            if found is None or first is not None and first.ndim == value.ndim and first.dtype == value.dtype:
                found = t
                if first is not None and first.ndim == value.ndim and first.dtype == value.dtype:
                    break
        return found and mutations.mutate(self.r, found, 1)

    def fit(self, t, value):
        """The slot that takes the value, others' shapes made to go with it; None where it does not fit."""
        tensors = [i for i in mutations.tensors(t) if t.slots[i].dtype.kind not in "OUS" and t.slots[i].dtype not in ODD]
        if not tensors or any(slot is not None and not is_tensor(slot) for slot in t.slots):
            return None
        i = tensors[0] if self.r.random() < 0.7 else pick(self.r, tensors)
        old, shape = t.slots[i].dtype, t.slots[i].shape
        if old != value.dtype:
            family = mutations.FLOATS + mutations.INTEGERS
            if old not in family or value.dtype not in family:
                return None
            for k in tensors:
                if t.slots[k].dtype == old:
                    t.slots[k] = mutations.values_like(self.r, t.slots[k], t.slots[k].shape, value.dtype)
        if len(shape) == value.ndim:
            sizes = {}
            for a, b in zip(shape, value.shape):
                sizes.setdefault(a, b)
            for k in tensors:
                if k != i:
                    t.slots[k] = mutations.values_like(self.r, t.slots[k], [sizes.get(size, size) if size != 1 else 1 for size in t.slots[k].shape])
            for name, attribute in t.attributes.items():
                if attribute.type == onnx.AttributeProto.INT and attribute.i > 2 and attribute.i in sizes:
                    t.attributes[name] = helper.make_attribute(name, sizes[attribute.i])
        else:
            for k in tensors:
                if k != i and t.slots[k].shape == shape:
                    t.slots[k] = mutations.values_like(self.r, t.slots[k], value.shape)
        t.slots[i] = value
        return i

    def grow(self):
        chosen = self.order[-1] if self.r.random() < 0.6 else pick(self.r, self.order)
        t = self.template(self.values[chosen])
        if t is None:
            return
        place = self.fit(t, self.values[chosen])
        if place is None:
            return
        number, names, more = len(self.nodes), [], []
        for i, slot in enumerate(t.slots):
            if slot is None:
                names.append("")
                continue
            if i == place:
                names.append(chosen)
                continue
            same = [name for name in self.order if self.values[name].dtype == slot.dtype and self.values[name].shape == slot.shape]
            if same and self.r.random() < 0.35:
                names.append(pick(self.r, same))
                t.slots[i] = self.values[names[-1]]
                continue
            names.append(f"n{number}c{i}")
            more.append((names[-1], slot))
        made = [f"v{number}_{i}" for i in range(max(1, t.outputs))]
        if t.domain:
            self.versions.setdefault(t.domain, t.version)
        node = node_of(t, names, made, f"n{number}")
        feed = {name: slot for name, slot in zip(names, t.slots) if name}
        try:
            model = model_of([node], self.opset, self.versions, feed, {}, made)
        except Exception:
            return
        (status, found), = self.oracle.ask("plain", model, [feed])
        if status != "ok" or not all(self.usable(value) for value in found):
            return
        self.nodes.append(node)
        self.last = t.name
        self.used.update(name for name in names if name in self.values)
        for name, slot in more:
            if self.r.random() < 0.15:
                self.given[name] = slot
            else:
                self.held[name] = slot
        for name, value in zip(made, found):
            self.values[name] = np.asarray(value)
            self.order.append(name)

    @staticmethod
    def usable(value):
        if not is_tensor(value) or value.size > MOST_ELEMENTS or value.dtype in ODD or value.dtype.kind in "OUS":
            return False
        if value.dtype.kind == "f":
            with np.errstate(all="ignore"):
                return bool(np.all(np.isfinite(value))) and (value.size == 0 or float(np.abs(value).max()) < LARGEST_VALUE)
        return True


def graph(seed, oracle, operators=None):
    r = np.random.default_rng([seed, 2])
    g = Growth(r, oracle, operators)
    most = int(r.integers(2, 13))
    for _ in range(5 * most):
        if len(g.nodes) >= most:
            break
        g.grow()
    if not g.nodes:
        return None
    made = [name for name in g.order if name not in g.given]
    outputs = [name for name in made if name not in g.used]
    if len(outputs) > 1 and r.random() < 0.3:
        del outputs[int(r.integers(len(outputs)))]
    for _ in range(int(r.choice((0, 0, 1, 2)))):
        inner = pick(r, made)
        if inner not in outputs:
            outputs.append(inner)
    if r.random() < 0.2:
        dressing.quantised_edges(r, g)
    if r.random() < 0.15:
        outputs = dressing.in_a_body(r, g, outputs)
    declared = pick(r, DECLARED)
    model = model_of(g.nodes, g.opset, g.versions, g.given, g.held, outputs, declared)
    model, given = dressing.retyped(r, model, g.given) if r.random() < 0.15 else (model, g.given)
    return settings(r, Problem(f"graph {seed}", dressing.model(r, model), runs(r, given, declared)))


def golden(maker):
    """Those of tests/golden, with seeds that its tests do not try."""
    def make(seed, oracle, operators=None):
        case = maker().make(seed + 10_000)
        if case is None or operators and not set(operators) & set(Problem("", case.model, []).operators()):
            return None
        r = np.random.default_rng([seed, 3])
        return settings(r, Problem(f"{make.name} {seed}", dressing.model(r, case.model), list(case.feeds)))
    return make


def golden_maker(name):
    import random_edges
    import random_single
    return {"edges": random_edges, "node": random_single, "sampling": random_single.sampling}[name]


def fused(name):
    """Chains and patterns that passes fuse, as tests/golden makes them."""
    def make(seed, oracle, operators=None):
        import chains_test
        import patterns_test
        import quantized_test
        made = {"chains": chains_test.Chain, "patterns": patterns_test.Pattern, "quantised": quantized_test.Quantized}[name](seed + 1_000_000)
        model = made.model() if name == "quantised" else made.build()
        feeds = [made.feed] if name == "quantised" else made.feeds
        r = np.random.default_rng([seed, 4])
        problem = Problem(f"{name} {seed}", dressing.model(r, model), feeds, step=(made.step or 0.03) if name == "quantised" else 0)
        return None if operators and not set(operators) & set(problem.operators()) else settings(r, problem)
    return make


def shapes(seed, oracle, operators=None):
    problem = computed_shapes(seed)
    if problem is None or operators and not set(operators) & set(problem.operators()):
        return None
    return settings(np.random.default_rng([seed, 7]), problem)


GENERATORS = {"single": single, "graph": graph, "shapes": shapes}
for name_ in ("edges", "node", "sampling"):
    GENERATORS[name_] = golden(lambda name_=name_: golden_maker(name_))
    GENERATORS[name_].name = name_
for name_ in ("chains", "patterns", "quantised"):
    GENERATORS[name_] = fused(name_)
# How often each of them is asked.
SHARES = {"single": 10, "graph": 10, "shapes": 2, "edges": 1, "node": 1, "sampling": 1, "chains": 1, "patterns": 1, "quantised": 1}
