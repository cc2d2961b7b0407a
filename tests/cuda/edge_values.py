"""Small models of values at the edge: NaN, infinities, and values outside of a type's range. The CPU EP gives the
results that docs/reference/operators.md states."""
import numpy as np
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

import node_cases

NAN, INF = float("nan"), float("inf")
VALUES = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.25, -0.25, 3.0, -3.0, 5.5, -5.5, 7.0, -7.0, 50.0]
NUMPY = {"float": np.float32, "float16": np.float16, "double": np.float64}

# What is computed of one tensor `x`; T is its type. Each keeps a NaN but ThresholdedRelu and Shrink.
ACTIVATIONS = {
    "relu": "y = Relu(x)",
    "clip": "y = Clip(x, low, high)",
    "clip_low": "y = Clip(x, low)",
    "clip_high": "y = Clip(x, , high)",
    "clip_nothing": "y = Clip(x)",
    "hardsigmoid": "y = HardSigmoid(x)",
    "hardsigmoid_steep": "y = HardSigmoid<alpha = 0.5, beta = 0.25>(x)",
    "hardswish": "y = HardSwish(x)",
    "leaky_relu": "y = LeakyRelu(x)",
    "elu": "y = Elu<alpha = 0.5>(x)",
    "celu": "y = Celu(x)",
    "celu_half": "y = Celu<alpha = 0.5>(x)",
    "selu": "y = Selu(x)",
    "thresholded": "y = ThresholdedRelu(x)",
    "shrink": "y = Shrink<lambd = 0.5, bias = 0.25>(x)",
    "softplus": "y = Softplus(x)",
    "softsign": "y = Softsign(x)",
    "mish": "y = Mish(x)",
    "gelu": "y = Gelu(x)",
    'gelu_tanh': 'y = Gelu<approximate = "tanh">(x)',
    "silu": "s = Sigmoid(x) y = Mul(x, s)",
    "gated": "s = HardSigmoid(x) y = Mul(x, s)",
    "sigmoid": "y = Sigmoid(x)",
    "tanh": "y = Tanh(x)",
    "prelu": "y = PRelu(x, high)",
    "sign": "y = Sign(x)",
    "max": "y = Max(x, low, high)",
    "min": "y = Min(low, x)",
    "clip_of_sum": "a = Add(x, high) b = Clip(a, low) y = Neg(b)",
    "relu_in_a_chain": "a = Mul(x, low) b = Relu(a) y = Sub(b, high)",
    "chain": "a = Abs(x) b = HardSigmoid(a) c = HardSwish(b) d = Relu(c) e = Clip(d, low, high) y = Add(e, x)",
}
# Of float32 alone.
OTHERS = {
    "relu_of_product": "a = MatMul(x, w) y = Relu(a)",
    "relu_of_biased_product": "a = MatMul(x, w) b = Add(a, bias) y = Relu(b)",
    "clip_of_product": "a = MatMul(x, w) y = Clip(a, low, high)",
    "clip_low_of_product": "a = MatMul(x, w) y = Clip(a, low)",
    "hardsigmoid_of_product": "a = MatMul(x, w) y = HardSigmoid(a)",
    "hardswish_of_gemm": "a = Gemm(x, w, bias) y = HardSwish(a)",
    "masked_softmax": "y = Softmax(x)",
    "guarded_softmax": "p = Softmax(x) n = IsNaN(p) y = Where(n, zero, p)",
    "log_softmax": "y = LogSoftmax(x)",
    "extremes": "y = ReduceMax(x, axes) z = ReduceMin(x, axes) u = ArgMax<axis = 1>(x) v = ArgMin<axis = 1>(x)"
                " s = ArgMax<axis = 1, select_last_index = 1>(x) t = ArgMin<axis = 0>(x)",
}
OUTPUTS = {"extremes": "float[] y, float[] z, int64[] u, int64[] v, int64[] s, int64[] t"}


def case(name, text, feeds, held=None, opset=20):
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> g {text}')
    for key, array in (held or {}).items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), key))
    return node_cases.driver.Case(name, model.SerializeToString(), feeds, [None] * len(model.graph.output))


def activations():
    for kind, dtype in NUMPY.items():
        held = {"low": np.array(-1.5, dtype), "high": np.array(6, dtype)}
        x = np.array(VALUES * 2 + [NAN], dtype)
        for name, text in ACTIVATIONS.items():
            if "Celu" in text and kind != "float":
                continue
            body = f"({kind}[{x.size}] x) => ({kind}[] y) {{ {text} }}"
            yield case(f"{name}_{kind}", body, {"x": x}, {key: value for key, value in held.items() if key in text})
        for name, attributes in (("both", "<min = -1.5, max = 6.0>"), ("low", "<min = -1.5>"), ("none", "")):
            yield case(f"clip_6_{name}_{kind}", f"({kind}[{x.size}] x) => ({kind}[] y) {{ y = Clip{attributes}(x) }}", {"x": x}, opset=10)


def images(rank):
    """Three images of eight channels, of which the first is NaN."""
    x = np.random.default_rng(5).uniform(-1, 1, (3, 8, *([5] * rank))).astype(np.float32)
    x[0] = NAN
    return x


def epilogues():
    random = np.random.default_rng(7)

    def floats(*dims):
        return random.uniform(-1, 1, dims).astype(np.float32)
    held = {"low": np.float32(-0.5), "high": np.float32(2)}
    after = {"relu": "y = Relu(a)", "clip": "y = Clip(a, low, high)", "clip_low": "y = Clip(a, low)", "clip_high": "y = Clip(a, , high)",
             "hardsigmoid": "y = HardSigmoid(a)", "hardswish": "y = HardSwish(a)", "leaky_relu": "y = LeakyRelu(a)",
             "residual_relu": "b = Add(a, r) y = Relu(b)", "relu_residual": "b = Relu(a) y = Add(b, r)"}
    for rank in (1, 2, 3):
        spatial = ",".join(["5"] * rank)
        for name, (op, shape) in {"conv": ("Conv<auto_pad = \"SAME_UPPER\">", (8, 8)), "depthwise": ("Conv<auto_pad = \"SAME_UPPER\", group = 8>", (8, 1)),
                                  "groups": ("Conv<auto_pad = \"SAME_UPPER\", group = 2>", (8, 4)),
                                  "transposed": (f"ConvTranspose<pads = [{','.join(['1'] * 2 * rank)}]>", (8, 8))}.items():
            w = floats(*shape, *([3] * rank))
            for activation, text in after.items():
                weights = {"w": w, "bias": floats(8), **{key: value for key, value in held.items() if key in text}}
                if "(a, r)" in text or "(b, r)" in text:
                    weights["r"] = floats(3, 8, *([5] * rank))
                yield case(f"{activation}_of_{name}_{rank}d", f"(float[3,8,{spatial}] x) => (float[] y) {{ a = {op}(x, w, bias) {text} }}",
                           {"x": images(rank)}, weights)


def bfloat16():
    dtype = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    x = np.array(VALUES, np.float32).astype(dtype)
    for name in ("relu", "clip", "clip_low", "clip_high", "clip_nothing", "tanh", "sigmoid", "max", "min"):
        text = ACTIVATIONS[name]
        held = {"low": np.array(-1.5, np.float32).astype(dtype), "high": np.array(6, np.float32).astype(dtype)}
        # Bounds that are constants, and as they come in.
        used = {key: value for key, value in held.items() if key in text}
        yield case(f"{name}_bfloat16", f"(bfloat16[{x.size}] x) => (bfloat16[] y) {{ {text} }}", {"x": x}, used)
        yield case(f"{name}_bfloat16_of_inputs", f"(bfloat16[{x.size}] x{''.join(f', bfloat16 {key}' for key in used)}) => (bfloat16[] y) {{ {text} }}",
                   {"x": x, **used})


def recurrent():
    random = np.random.default_rng(11)
    x = random.uniform(-1, 1, (4, 3, 8)).astype(np.float32)  # steps, sequences, inputs
    x[1, 1, 2] = NAN
    for op, gates, functions in (("RNN", 1, ["Relu"]), ("RNN", 1, ["Softplus"]), ("RNN", 1, ["HardSigmoid"]), ("RNN", 1, ["Tanh"]),
                                 ("GRU", 3, ["HardSigmoid", "Relu"]), ("LSTM", 4, ["HardSigmoid", "Tanh", "Relu"])):
        for clip in ("", ", clip = 0.75"):
            listed = ", ".join(f'"{name}"' for name in functions)
            held = {"w": random.uniform(-1, 1, (1, gates * 16, 8)).astype(np.float32), "r": random.uniform(-0.2, 0.2, (1, gates * 16, 16)).astype(np.float32)}
            yield case(f"{op}_{'_'.join(functions)}{'_clipped' if clip else ''}",
                       f"(float[4,3,8] x) => (float[] y) {{ y = {op}<hidden_size = 16, activations = [{listed}]{clip}>(x, w, r) }}", {"x": x}, held)


def attention():
    """Of each five queries one has every key masked, and one a NaN among its masks."""
    random = np.random.default_rng(13)
    for heads, size, queries, keys in ((2, 32, 7, 7), (3, 64, 33, 40), (2, 128, 17, 130), (2, 24, 9, 5), (16, 64, 130, 70)):
        q, k, v = (random.uniform(-1, 1, (2, count, heads * size)).astype(np.float32) for count in (queries, keys, keys))
        mask = np.zeros((1, 1, queries, keys), np.float32)
        mask[0, 0, 1::5] = -INF
        mask[0, 0, 3::5, keys // 2] = NAN
        mask[0, 0, 2::5, keys // 3:] = -INF
        text = ("a = Reshape(q, split) b = Transpose<perm = [0,2,1,3]>(a) c = Reshape(k, split) d = Transpose<perm = [0,2,3,1]>(c)"
                " e = Reshape(v, split) f = Transpose<perm = [0,2,1,3]>(e) s = MatMul(b, d) t = Mul(s, scale) u = Add(t, m) p = Softmax(u)"
                " o = MatMul(p, f) x = Transpose<perm = [0,2,1,3]>(o) y = Reshape(x, join)")
        yield case(f"attention_{heads}x{size}_{queries}_{keys}",
                   f"(float[2,{queries},{heads * size}] q, float[2,{keys},{heads * size}] k, float[2,{keys},{heads * size}] v, float[1,1,{queries},{keys}] m)"
                   f" => (float[] y) {{ {text} }}", {"q": q, "k": k, "v": v, "m": mask},
                   {"split": np.array([0, 0, heads, size]), "join": np.array([0, 0, heads * size]), "scale": np.float32(size**-0.5)})


def others():
    random = np.random.default_rng(9)
    held = {"w": np.abs(random.uniform(0.1, 1, (16, 8))).astype(np.float32), "bias": random.uniform(-1, 1, 8).astype(np.float32),
            "low": np.float32(-0.5), "high": np.float32(2), "zero": np.float32(0), "axes": np.array([1])}
    x = random.uniform(-1, 1, (6, 16)).astype(np.float32)
    x[1, 3] = NAN
    x[2] = -INF
    x[3, 0] = INF
    x[4, 5:] = -INF
    x[5, 7] = x[5, 9] = NAN
    # A product without TF32 takes floats apart, and an infinity's parts make NaN (docs/explanation/cuda-compute.md).
    finite = np.where(np.isinf(x), np.float32(0.5), x)
    for name, text in OTHERS.items():
        yield case(name, f"(float[6,16] x) => ({OUTPUTS.get(name, 'float[] y')}) {{ {text} }}",
                   {"x": finite if "MatMul" in text or "Gemm" in text else x},
                   {key: value for key, value in held.items() if key + ")" in text or key + "," in text})
    # A product that takes what the normalisation before it wrote, as f16 numbers where it may.
    rows = random.uniform(-1, 1, (48, 256)).astype(np.float32)
    rows[5, 9] = NAN
    yield case("relu_of_normal", "(float[48,256] x) => (float[] y) { n = LayerNormalization(x, s, t) a = MatMul(n, w) b = Add(a, bias) y = Relu(b) }",
               {"x": rows}, {"s": np.ones(256, np.float32), "t": np.zeros(256, np.float32), "bias": random.uniform(-1, 1, 1024).astype(np.float32),
                             "w": random.uniform(-0.1, 0.1, (256, 1024)).astype(np.float32)})
    for op in ("MaxPool<kernel_shape = [2,2]>", "AveragePool<kernel_shape = [2,2]>", "GlobalMaxPool", "GlobalAveragePool"):
        yield case(f"{op.split('<')[0]}", f"(float[3,8,5,5] x) => (float[] y) {{ y = {op}(x) }}", {"x": images(2)})
    for columns in (300, 5000):  # rows with a kernel of their own, and longer ones
        row = random.uniform(-1, 1, (5, columns)).astype(np.float32)
        row[1, 3], row[2], row[3, :-1], row[4, 0] = NAN, -INF, -INF, INF
        for name in ("masked_softmax", "guarded_softmax"):
            yield case(f"{name}_{columns}", f"(float[5,{columns}] x) => (float[] y) {{ {OTHERS[name]} }}", {"x": row},
                       {"zero": np.float32(0)} if "zero" in OTHERS[name] else {})


NUMBERS = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "uint16": TensorProto.UINT16, "int16": TensorProto.INT16,
           "uint32": TensorProto.UINT32, "int32": TensorProto.INT32, "uint64": TensorProto.UINT64, "int64": TensorProto.INT64,
           "bool": TensorProto.BOOL, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16, "float": TensorProto.FLOAT,
           "double": TensorProto.DOUBLE}


def edges_of(dtype):
    """Values around the borders of every integer type."""
    if dtype == np.bool_:
        return np.array([True, False])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = [v for b in (7, 8, 15, 16, 31, 32, 63) for v in (2**b - 1, 2**b, -2**b, -2**b - 1)] + [0, 1, -1, 77, info.min, info.max]
        return np.array([v for v in values if info.min <= v <= info.max], dtype)
    values = [NAN, INF, -INF, 0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 300.7, -300.7, 3e9, -3e9, 1e18, 1e19, 1e20, -1e19, -1e20, 1e30, -1e30]
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        edge = dtype.type(2.0**bits)
        values += [s * float(v) for v in (np.nextafter(edge, dtype.type(0)), edge, np.nextafter(edge, dtype.type(INF))) for s in (1, -1)]
    with np.errstate(over="ignore"):
        return np.array(values).astype(dtype)


def casts():
    sources = ("float", "float16", "double", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
    for source in sources:
        with np.errstate(over="ignore"):
            x = edges_of(np.dtype(helper.tensor_dtype_to_np_dtype(NUMBERS[source])))
        for target, number in NUMBERS.items():
            if source == target:
                continue
            yield case(f"cast_{source}_to_{target}", f"({source}[{x.size}] x) => ({target}[] y) {{ y = Cast<to = {number}>(x) }}", {"x": x}, opset=13)
            if target in ("int8", "uint32", "uint64"):  # inside a chain, and by the type of another tensor
                yield case(f"cast_like_{source}_to_{target}",
                           f"({source}[{x.size}] x, {target}[1] t) => ({target}[] y, bool[] z) {{ y = CastLike(x, t) z = Equal(y, t) }}",
                           {"x": x, "t": np.array([0], helper.tensor_dtype_to_np_dtype(number))}, opset=15)


def make():
    made = [*activations(), *bfloat16(), *epilogues(), *recurrent(), *attention(), *others(), *casts()]
    assert len({one.name for one in made}) == len(made)
    return made
