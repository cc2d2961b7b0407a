"""Random chains of products and what passes fuse into them (bias, scale, residual, activation, norms, pooling), against
ONNX Runtime: operands constant, computed or known at run time only, one to three spatial dimensions, groups, pads,
batches of 0 to 2, several shapes in one session, 1 and 2 threads.

TENON_CHAINS=SEED:MODELS makes other chains than the fixed ones, e.g. for a night.
"""
import os

import numpy as np
import onnx
import pytest
from onnx import helper

import driver
from rows_test import tensor_of

SEED, MODELS = (int(text) for text in os.environ.get("TENON_CHAINS", "1:1500").split(":"))
DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16}
ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "HardSwish", "Gelu", "Clip", "Elu", "Silu", "HandHardSwish", "HandGelu", "Clip6", "ClipRun")


class Chain:
    """One model and the inputs for each of its runs."""

    def __init__(self, seed, dtype=None):
        self.rng = np.random.default_rng(seed)
        chosen = np.dtype(DTYPES[self.rng.choice(list(DTYPES), p=[0.86, 0.07, 0.07])])
        self.dtype = np.dtype(dtype or chosen)
        self.narrow = chosen == np.float16
        self.graph = onnx.GraphProto(name="g")
        self.count = 0
        self.feeds = [{}]  # one a run
        self.shapes = {}  # name -> shape in the first run; "N" stands for the batch
        self.outputs = []

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def fresh(self):
        self.count += 1
        return f"v{self.count}"

    def values(self, shape, low=-1.0, high=1.0):
        return np.asarray(self.rng.integers(int(low * 64), int(high * 64) + 1, shape) / 64).astype(self.dtype)

    def input(self, shape, values=None):
        name = self.fresh()
        self.graph.input.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(self.dtype), shape))
        self.shapes[name] = tuple(shape)
        for run, batch in zip(self.feeds, self.batches):
            sizes = tuple(batch if dim == "N" else dim for dim in shape)
            run[name] = values if values is not None else self.values(sizes)
        return name

    def constant(self, value):
        name = self.fresh()
        self.graph.initializer.append(tensor_of(name, np.asarray(value)))
        return name

    def operand(self, shape, low=-1.0, high=1.0):
        """Constant, an input, or computed from one."""
        values = self.values(shape, low, high)
        kind = self.pick("constant", "constant", "input", "computed")
        if kind == "constant":
            return self.constant(values)
        name = self.input(shape, values)
        return name if kind == "input" else self.node("Abs" if low > 0 else "Neg", [name])

    def node(self, op, inputs, outputs=1, **attributes):
        names = [self.fresh() for _ in range(outputs)]
        self.graph.node.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    # Each step takes and gives (name, shape).

    def conv(self, x, shape):
        rank = len(shape) - 2
        channels = shape[1]
        group = self.pick(*(g for g in (1, 1, 1, 2, 4, channels) if channels % g == 0))
        outputs = group * self.pick(*((1, 1, 1, 2) if group == channels and channels > 1 else (1, 2, 3, 4, 8, 16)))
        kernel = [int(self.pick(1, 1, 2, 3, 3, 5)) for _ in range(rank)]
        dilations = [int(self.pick(1, 1, 1, 2)) for _ in range(rank)]
        kernel = [k if (k - 1) * d + 1 <= size + 2 else 1 for k, d, size in zip(kernel, dilations, shape[2:])]
        strides = [int(self.pick(1, 1, 2, 3)) for _ in range(rank)]
        attributes = dict(group=group, dilations=dilations, strides=strides)
        style = self.pick("pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
        begin = [max(int(self.rng.integers(0, k + 1)), (r - size + 1) // 2) for k, r, size in zip(kernel, reach, shape[2:])]
        if style == "VALID" and any(r > size for r, size in zip(reach, shape[2:])):
            style = "pads"
        if style.startswith("SAME") and max(dilations) > 1:
            style = "pads"
        if style == "pads":
            end = [max(int(self.rng.integers(0, 2)), r - size - b) for r, size, b in zip(reach, shape[2:], begin)]
            attributes["pads"] = begin + end
            sizes = [(size + b + e - r) // s + 1 for size, b, e, r, s in zip(shape[2:], begin, end, reach, strides)]
        else:
            attributes["auto_pad"] = style
            sizes = [-(-size // s) if style != "VALID" else (size - r) // s + 1 for size, r, s in zip(shape[2:], reach, strides)]
        inputs = [x, self.operand((outputs, channels // group, *kernel))]
        if self.rng.random() < 0.6:
            inputs.append(self.operand((outputs,)))
        return self.node("Conv", inputs, **attributes), (shape[0], outputs, *sizes)

    def conv_transpose(self, x, shape):
        rank = len(shape) - 2
        group = self.pick(*(g for g in (1, 1, 2) if shape[1] % g == 0))
        outputs = group * self.pick(1, 2, 3, 8)
        kernel = [int(self.pick(1, 2, 2, 3)) for _ in range(rank)]
        strides = [int(self.pick(1, 2, 2)) for _ in range(rank)]
        pads = [min(int(self.rng.integers(0, k)), (size - 1) * s // 2) for k, size, s in zip(kernel, shape[2:], strides)]
        sizes = [(size - 1) * s + k - 2 * p for size, s, k, p in zip(shape[2:], strides, kernel, pads)]
        if min(sizes) < 1 or np.prod(sizes) > 4000:
            return x, shape
        inputs = [x, self.operand((shape[1], outputs // group, *kernel))]
        if self.rng.random() < 0.6:
            inputs.append(self.operand((outputs,)))
        return self.node("ConvTranspose", inputs, group=group, strides=strides, pads=pads * 2), (shape[0], outputs, *sizes)

    def product(self, x, shape):
        columns = int(self.pick(1, 3, 8, 17))
        if len(shape) == 2 and self.rng.random() < 0.5:
            trans = int(self.rng.integers(2))
            inputs = [x, self.operand((columns, shape[-1]) if trans else (shape[-1], columns))]
            if self.rng.random() < 0.6:
                inputs.append(self.operand(self.pick((columns,), (1, columns), (1,), ())))
            return self.node("Gemm", inputs, transB=trans, alpha=self.pick(1.0, 0.5), beta=self.pick(1.0, 2.0)), (shape[0], columns)
        return self.node("MatMul", [x, self.operand((shape[-1], columns))]), (*shape[:-1], columns)

    def binary(self, x, shape):
        op = self.pick("Add", "Add", "Mul", "Sub", "Div", "Max")
        channel = (shape[1],) + (1,) * (len(shape) - 2) if len(shape) > 2 else (shape[-1],)
        full = tuple(dim for dim in shape if dim != "N")
        kind = self.pick("scalar", "one", "channel", "channel4", "full", "full1", "last", "residual", "self", "batch")
        sizes = {"scalar": (), "one": (1,) * len(shape), "channel": channel, "channel4": (1, *channel) if len(shape) > 2 else channel,
                 "full": full, "full1": (1, *full) if shape[0] == "N" else full, "last": (shape[-1],)}.get(kind)
        low = 0.5 if op in ("Mul", "Div") else -1.0
        if kind == "self":
            other = self.node("Abs", [x])
            other = self.node("Add", [other, self.constant(np.asarray(1, self.dtype))]) if op == "Div" else other
        elif kind in ("residual", "batch"):
            other = self.input(shape if kind == "residual" else (shape[0],) + channel if len(shape) > 2 else shape)
            if op == "Div":
                other = self.node("Exp", [other])
        else:
            other = self.operand(sizes, low, 2.0)
        inputs = [x, other] if op == "Div" or self.rng.random() < 0.5 else [other, x]
        return self.node(op, inputs), shape

    def activation(self, x, shape):
        op = self.pick(*ACTIVATIONS)
        number = lambda value: self.constant(np.asarray(value, self.dtype))
        if op == "Silu":
            return self.node("Mul", [x, self.node("Sigmoid", [x])]), shape
        if op == "HandHardSwish":
            gate = self.node("Clip", [self.node("Add", [x, number(3)]), number(0), number(6)])
            return self.node("Div", [self.node("Mul", [x, gate]), number(6)]), shape
        if op == "HandGelu":
            erf = self.node("Erf", [self.node("Div", [x, number(np.sqrt(2))])])
            return self.node("Mul", [self.node("Mul", [x, self.node("Add", [erf, number(1)])]), number(0.5)]), shape
        if op == "Clip6":
            return self.node("Clip", [x, number(0), number(6)]), shape
        if op == "ClipRun":
            return self.node("Clip", [x, self.operand((), -1, 0), self.operand((), 0.25, 1)]), shape
        if op == "Clip":
            return self.node("Clip", [x, *self.pick((number(-0.5),), ("", number(0.5)), (number(0.25), number(0.5)))]), shape
        attributes = {"LeakyRelu": {"alpha": 0.25}, "HardSigmoid": {"alpha": 0.25, "beta": 0.75}, "Gelu": {"approximate": self.pick("none", "tanh")}}
        return self.node(op, [x], **attributes.get(op, {})), shape

    def batch_norm(self, x, shape):
        c = (shape[1],)
        return self.node("BatchNormalization", [x, self.operand(c), self.operand(c), self.operand(c), self.operand(c, 0.5, 2)]), shape

    def pool(self, x, shape):
        rank = len(shape) - 2
        op = self.pick("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean")
        if op.startswith("Global"):
            return self.node(op, [x]), (*shape[:2], *(1,) * rank)
        if op == "ReduceMean":
            return self.node(op, [x, self.constant(np.arange(2, 2 + rank))]), (*shape[:2], *(1,) * rank)
        kernel = [min(2, size) for size in shape[2:]]
        return self.node(op, [x], kernel_shape=kernel), (*shape[:2], *(size - k + 1 for size, k in zip(shape[2:], kernel)))

    def join(self, x, shape):
        op = self.pick("Concat", "Split", "Resize", "Transpose", "Identity")
        if op == "Concat":
            return self.node("Concat", [x, x], axis=1), (shape[0], 2 * shape[1], *shape[2:])
        if op == "Split" and shape[1] % 2 == 0:
            first, second = self.node("Split", [x], 2, axis=1, num_outputs=2)
            return self.node("Add", [first, second]), (shape[0], shape[1] // 2, *shape[2:])
        if op == "Resize" and len(shape) == 4 and shape[2] * shape[3] < 200:
            scales = np.array([1, 1, 2, 2], np.float32)
            return self.node("Resize", [x, "", self.constant(scales)], mode="nearest", coordinate_transformation_mode="asymmetric",
                             nearest_mode="floor"), (*shape[:2], 2 * shape[2], 2 * shape[3])
        if op == "Transpose" and len(shape) == 4:
            return self.node("Transpose", [x], perm=[0, 1, 3, 2]), (*shape[:2], shape[3], shape[2])
        return self.node("Identity", [x]), shape

    def norm(self, x, shape):
        if self.narrow:  # what a norm divides by may be the rounding of the step before
            return x, shape
        scale, bias = self.operand((shape[-1],)), self.operand((shape[-1],))
        if self.rng.random() < 0.5:
            return self.node("LayerNormalization", [x, scale, bias]), shape
        return self.node("Softmax", [x], axis=-1), shape

    def build(self):
        rank = int(self.pick(2, 3, 4, 5, 5, 5, 6))  # 5: two spatial dimensions, the usual ones
        self.batches = [int(self.pick(1, 2, 3))]
        if self.rng.random() < 0.5:
            self.batches += [int(b) for b in self.rng.choice([0, 1, 2, 5], 2)]
            batch = "N"
        else:
            batch = int(self.pick(1, 2, 2, 0) if self.rng.random() < 0.3 else self.batches[0])
        self.feeds = [{} for _ in self.batches]
        spatial = {2: None, 3: None, 4: 1, 5: 2, 6: 3}[rank]
        if spatial is None:
            shape = (batch, int(self.pick(3, 8, 16))) if rank == 2 else (batch, int(self.pick(1, 5)), int(self.pick(3, 8, 16)))
        else:
            sizes = (1, 3, 5, 6, 9, 17, 33) if spatial < 3 and self.rng.random() < 0.5 else (1, 3, 5, 6, 9)
            shape = (batch, int(self.pick(1, 3, 4, 8, 8, 12, 16, 24, 40)), *(int(self.pick(*sizes)) for _ in range(spatial)))
        x = self.input(shape)
        if self.rng.random() < 0.08:  # the first operand is a constant
            if batch != "N":
                x = self.constant(self.values(shape))
        step = self.product if spatial is None else self.conv
        x, shape = step(x, shape)
        later = (self.product, self.binary, self.binary, self.activation, self.norm) if spatial is None else (
            self.conv, self.conv, self.conv_transpose, self.binary, self.binary, self.binary, self.activation, self.activation, self.activation,
            self.batch_norm, self.pool, self.join, self.norm)
        for _ in range(int(self.rng.integers(0, 6))):
            if self.rng.random() < 0.12:
                self.outputs.append(x)
            x, shape = self.pick(*later)(x, shape)
            if any(dim != "N" and dim > 60 for dim in shape):
                break
        self.outputs.append(x)
        for name in dict.fromkeys(self.outputs):
            self.graph.output.append(onnx.ValueInfoProto(name=name))
        model = onnx.ModelProto(ir_version=10, graph=self.graph)
        model.opset_import.add().version = 20
        return model.SerializeToString()


def by_onnxruntime(model, feeds):
    """The outputs of each feed; or why there are none, as text."""
    try:
        session = driver.plain_session(model)
        return [session.run(None, feed) for feed in feeds]
    except Exception as error:
        return str(error)


def differs(want, got):
    for index, (w, g) in enumerate(zip(want, got)):
        if w.shape != g.shape or w.dtype != g.dtype:
            return f"output {index} is {g.dtype}{list(g.shape)}, not {w.dtype}{list(w.shape)}"
        digits = 2e-2 if w.dtype == np.float16 else 2e-4
        w, g = w.astype(np.float64), g.astype(np.float64)
        largest = np.max(np.abs(w[np.isfinite(w)]), initial=1e-2)
        close = np.isclose(g, w, rtol=digits, atol=digits * largest, equal_nan=True)
        if not close.all():
            at = tuple(int(i) for i in np.argwhere(~close)[0])
            return f"output {index} at {list(at)} is {g[at]}, not {w[at]} ({np.sum(~close)} of {w.size} differ)"
    return None if len(want) == len(got) else f"{len(got)} outputs, not {len(want)}"


def describe(model):
    graph = onnx.load_from_string(model).graph
    return " ".join(node.op_type for node in graph.node)


def check(cases, oracles, folder, settings):
    """Each case under each of the driver's settings. TENON_CHAINS_KEEP names a folder for the models that fail."""
    failures, keep = [], os.environ.get("TENON_CHAINS_KEEP")
    refused = [want for want in oracles.values() if isinstance(want, str)]
    for options in settings:
        outcomes = driver.run_all(cases, folder, options)
        for case in cases:
            outcome, want = outcomes[case.name], oracles[case.name]
            if isinstance(want, str):
                problem = outcome.status if outcome.status == "crashed" or outcome.status.startswith("internal") else None
            else:
                problem = differs(sum(want, []), [array for _, arrays in outcome.feeds for array in arrays]) if outcome.ok else outcome.status
            if problem:
                failures.append(f"{case.name} {' '.join(options)} ({describe(case.model)}): {problem[:300]}")
                if keep:
                    (os.makedirs(keep, exist_ok=True), open(f"{keep}/{case.name}.onnx", "wb").write(case.model))
    print(f"{len(cases)} models, {len(refused)} that onnxruntime refuses, {len(failures)} failures")
    assert not failures, "\n".join(failures)
    assert len(refused) < len(cases) / 10, refused[:9]


def test_chains_give_what_onnxruntime_gives(tmp_path):
    rng = np.random.default_rng(SEED)
    cases, oracles = [], {}
    for number in range(MODELS):
        seed = rng.integers(1 << 62)
        chain = Chain(seed)
        model = chain.build()
        want = by_onnxruntime(model, chain.feeds)
        if isinstance(want, str) and chain.dtype != np.float32:
            # It has no kernel for the type: the same chain in float32.
            wide = Chain(seed, np.float32)
            want = by_onnxruntime(wide.build(), wide.feeds)
            if not isinstance(want, str):
                want = [[output.astype(chain.dtype) for output in outputs] for outputs in want]
        wanted = [[None]] * len(chain.feeds) if isinstance(want, str) else want
        cases.append(driver.Case(f"chain{number}", model, chain.feeds[0], wanted[0], list(zip(chain.feeds[1:], wanted[1:]))))
        oracles[f"chain{number}"] = want
    # Guarded: tensors end where unreadable pages begin.
    check(cases, oracles, tmp_path, (["--threads=1"], ["--threads=2"], ["--threads=2", "--guarded"], ["--threads=1", "--no-winograd"]))


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
