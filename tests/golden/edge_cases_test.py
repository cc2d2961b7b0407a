"""Small models at the edges of what operators allow, one a fact; `want` says what they give where ONNX Runtime does not."""
import dataclasses
import functools

import numpy as np
import onnx
import onnx.parser
import pytest

import driver
import edges_test

SETTINGS = {
    "1 thread": (["--threads=1"], {}),
    "2 threads": (["--threads=2"], {}),
    "baseline": (["--threads=2"], {"TENON_CPU_ISA": "baseline"}),
}
NAN, INF = np.float32("nan"), np.float32("inf")
NUMBERS = np.random.default_rng(3)


def floats(*dims):
    return NUMBERS.standard_normal(dims).astype(np.float32)


def ramp(*dims):
    return np.arange(np.prod(dims, dtype=int), dtype=np.float32).reshape(dims)


def f32(*values):
    return np.array(values, np.float32)


@dataclasses.dataclass
class Fact:
    text: str
    feeds: list  # one dict a run of one session
    held: dict = dataclasses.field(default_factory=dict)  # initializers
    opset: int = 17
    want: object = None  # (inputs, outputs) -> bool, where ONNX Runtime's answer does not count; or what a refusal says

    @functools.cached_property
    def model(self):
        ir_version = {11: 6, 13: 7}.get(self.opset, 8)
        model = onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {self.opset}]> g {self.text}')
        for name, array in self.held.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return model.SerializeToString()


def empty(inputs, outputs):
    return all(array.size == 0 for array in outputs)


def gives(*wanted):
    def check(inputs, outputs):
        return all(np.array_equal(want, got, equal_nan=np.asarray(want).dtype.kind == "f") for want, got in zip(wanted, outputs))
    return check


def gives_for(function):
    return lambda inputs, outputs: np.array_equal(function(**inputs), outputs[0], equal_nan=True)


FACTS = {}
JOINED = "(float[a,b] x, float[c,d] y) => (float[e,f] z) { z = Concat <axis = 0> (x, y) }"
FACTS["concat_of_empty_parts_of_another_shape"] = Fact(JOINED, [{"x": ramp(2, 3), "y": ramp(0, 4)}, {"x": ramp(0, 1), "y": ramp(2, 3)},
                                                                {"x": ramp(1, 3), "y": ramp(2, 3)}, {"x": ramp(0, 3), "y": ramp(0, 3)}])
FACTS["concat_of_nothing_of_one_dimension"] = Fact("(float[2,3] x) => (float[2,3] z) { n = Identity(empty) z = Concat <axis = 0> (n, x) }",
                                                   [{"x": ramp(2, 3)}], {"empty": ramp(0)}, want=gives(ramp(2, 3)))
FACTS["concat_of_an_empty_part_that_adds_rows"] = Fact(JOINED, [{"x": ramp(2, 3), "y": ramp(2, 0)}], want="differ in dimension 1")

# ---- Nothing to compute: no image, or an image without rows or columns.
for name, kind, weights in (("conv", "Conv<pads=[1,1,1,1]>", (16, 8, 3, 3)), ("depthwise", "Conv<group=8>", (8, 1, 3, 3)),
                            ("point", "Conv", (8, 8, 1, 1)), ("groups", "Conv<group=2>", (16, 4, 3, 3)),
                            ("transpose", "ConvTranspose<strides=[2,2]>", (8, 8, 3, 3)),
                            ("transpose_to_plain", "ConvTranspose<strides=[2,2]>", (8, 1, 2, 2))):
    FACTS[f"empty_{name}"] = Fact(f"(float[N,8,9,9] x) => (float[] y) {{ a = {kind}(x, w) y = Relu(a) }}",
                                  [{"x": floats(n, 8, 9, 9)} for n in (0, 2, 0)], {"w": floats(*weights)})
for name, kind in (("max", "MaxPool<kernel_shape=[3,3]>"), ("average", "AveragePool<kernel_shape=[2,2]>")):
    FACTS[f"empty_{name}_pool"] = Fact(f"(float[N,8,9,9] x) => (float[] y) {{ y = {kind}(x) }}", [{"x": floats(n, 8, 9, 9)} for n in (0, 2)])
for dims in ((1, 8, 0, 5), (1, 8, 5, 0), (0, 8, 5, 5)):
    for auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        for kernel, stride in ((1, 1), (3, 1), (2, 2)):
            FACTS[f"conv_transpose_{auto_pad}_of_{'x'.join(map(str, dims))}_k{kernel}s{stride}"] = Fact(
                f'(float[] x) => (float[] y) {{ y = ConvTranspose<auto_pad="{auto_pad}", strides=[{stride},{stride}]>(x, w) }}',
                [{"x": floats(*dims)}], {"w": floats(8, 8, kernel, kernel)}, want=empty)
FACTS["conv_of_an_empty_image_in_padding_is_its_bias"] = Fact(
    "(float[1,8,0,4] x) => (float[] y) { y = Conv<pads=[1,1,1,1]>(x, w, b) }", [{"x": floats(1, 8, 0, 4)}],
    {"w": floats(8, 8, 2, 3), "b": ramp(8)}, want=gives(np.broadcast_to(ramp(8).reshape(1, 8, 1, 1), (1, 8, 1, 4))))

# ---- Transpose without perm reverses whatever rank the input turns out to have.
FACTS["transpose_of_unknown_rank"] = Fact("(float[] x) => (float[] y) { a = Transpose(x) y = Neg(a) }",
                                          [{"x": ramp(2, 3, 4)}, {"x": ramp(3)}, {"x": ramp(2, 3)}, {"x": ramp()}])
FACTS["transpose_of_unknown_rank_is_an_output"] = Fact("(float[] x) => (float[] y) { y = Transpose(x) }", [{"x": ramp(3, 3)}])
FACTS["transposes_of_unknown_rank_in_a_row"] = Fact("(float[] x) => (float[] y) { a = Transpose<perm=[1,0,2]>(x) y = Transpose(a) }",
                                                    [{"x": ramp(2, 3, 4)}])
FACTS["two_transposes_of_unknown_rank_undo_each_other"] = Fact(
    "(float[] x) => (float[] y) { a = Transpose(x) b = Transpose(a) y = Neg(b) }", [{"x": ramp(2, 3, 4)}])

# ---- Packed weights are shared by shapes, and by nodes, that read them in different ways.
FACTS["conv_transpose_of_changing_sizes"] = Fact(
    "(float[1,8,H,W] x) => (float[] y) { y = ConvTranspose<strides=[2,2], pads=[1,1,1,1]>(x, w) }",
    [{"x": floats(1, 8, h, w)} for h, w in ((1, 4), (4, 1), (1, 1), (5, 6))], {"w": floats(8, 8, 3, 3)})
FACTS["conv_transpose_weights_with_two_strides_and_pads"] = Fact(
    "(float[1,8,4,5] x) => (float[] y, float[] z, float[] u) { y = ConvTranspose<strides=[2,2], pads=[1,1,1,1]>(x, w)"
    " z = ConvTranspose<strides=[2,2]>(x, w) u = ConvTranspose<strides=[3,4]>(x, w) }", [{"x": floats(1, 8, 4, 5)}], {"w": floats(8, 8, 3, 3)})
FACTS["conv_weights_for_plain_and_blocked_inputs"] = Fact(
    "(float[1,8,6,6] x, float[1,8,6,6] z) => (float[] y, float[] u) { y = Conv(x, w) a = Conv(z, v) u = Conv(a, w) }",
    [{"x": floats(1, 8, 6, 6), "z": floats(1, 8, 6, 6)}], {"w": floats(4, 8, 3, 3), "v": floats(8, 8, 1, 1)})
FACTS["conv_transpose_with_a_bias_of_an_input"] = Fact(
    "(float[1,8,4,5] x, float[8] b) => (float[] y) { a = Relu(b) y = ConvTranspose(x, w, a) }", [{"x": floats(1, 8, 4, 5), "b": floats(8)}],
    {"w": floats(8, 8, 2, 2)})

# ---- A volume in blocks of channels, of which points become few channels.
FACTS["few_outputs_of_the_points_of_a_volume"] = Fact(
    "(float[2,8,D,5,6] x) => (float[] y) { a = Conv<pads=[1,1,1,1,1,1]>(x, w) b = Relu(a) c = Conv(b, v, bias) y = Sigmoid(c) }",
    [{"x": floats(2, 8, depth, 5, 6)} for depth in (1, 4)], {"w": floats(20, 8, 3, 3, 3), "v": floats(3, 20, 1, 1, 1), "bias": floats(3)})

# ---- A NaN makes an extreme NaN, wherever it stands (docs/reference/operators.md).
for length in (1, 5, 8, 17, 64, 70):
    for place in sorted({0, length // 2, length - 1}):
        row = ramp(length)
        row[place] = NAN
        FACTS[f"reduce_nan_{place}_of_{length}"] = Fact(
            "(float[N] x) => (float y, float z) { y = ReduceMax<keepdims=0>(x) z = ReduceMin<keepdims=0>(x) }", [{"x": row}],
            want=gives(NAN, NAN), opset=13)
        column = np.repeat(ramp(length)[:, None], 70, 1)
        column[place, 3] = NAN
        FACTS[f"reduce_columns_nan_{place}_of_{length}"] = Fact(
            "(float[N,70] x) => (float[] y, float[] z) { y = ReduceMax<axes=[0], keepdims=0>(x) z = ReduceMin<axes=[0], keepdims=0>(x) }",
            [{"x": column}], want=gives(column.max(0), column.min(0)), opset=13)
        image = np.repeat(ramp(length).reshape(1, 1, 1, length), 9, 1)
        image[0, 2, 0, place] = NAN
        FACTS[f"pool_nan_{place}_of_{length}"] = Fact(
            "(float[1,9,1,N] x) => (float[] y, float[] z) { y = MaxPool<kernel_shape=[1,1]>(x) z = GlobalMaxPool(x) }",
            [{"x": image}], want=gives(image, image.max((2, 3), keepdims=True)))
        windows = np.lib.stride_tricks.sliding_window_view(image, min(3, length), axis=3).max(-1)
        FACTS[f"window_nan_{place}_of_{length}"] = Fact(
            f"(float[1,9,1,N] x) => (float[] y, float[] z, int64[] i) {{ y = MaxPool<kernel_shape=[1,{min(3, length)}]>(x)"
            f" z, i = MaxPool<kernel_shape=[1,{min(3, length)}]>(x) }}", [{"x": image}], want=gives(windows, windows))
SPECIAL = f32(NAN, 1, INF, -INF, INF, 0, NAN, NAN, 3)
for op, function in (("Max", np.maximum), ("Min", np.minimum)):
    for name, other in (("same_size", f32(1, NAN, INF, -INF, -INF, -1, NAN, INF, 3)), ("a_number", f32(2)), ("nan", f32(NAN)), ("infinity", f32(INF))):
        FACTS[f"{op.lower()}_with_{name}"] = Fact(f"(float[9] a, float[] b) => (float[] y, float[] z) {{ y = {op}(a, b) z = {op}(b, a) }}",
                                                  [{"a": SPECIAL, "b": other}], want=gives(function(SPECIAL, other), function(SPECIAL, other)))
    # Beside a convolution, the values are in blocks.
    FACTS[f"{op.lower()}_in_blocks"] = Fact(
        f"(float[1,8,1,9] a, float[1,8,1,9] b) => (float[] y) {{ c = Conv(a, w) d = Conv(b, w) e = {op}(c, d) y = Conv(e, w) }}",
        [{"a": ramp(1, 8, 1, 9), "b": -ramp(1, 8, 1, 9)}], {"w": np.eye(8, dtype=np.float32).reshape(8, 8, 1, 1)})
FACTS["arg_of_nan"] = Fact(
    "(float[2,5] x) => (int64[] a, int64[] b, int64[] c, int64[] d) { a = ArgMax<axis=1>(x) b = ArgMin<axis=1>(x)"
    " c = ArgMax<axis=1, select_last_index=1>(x) d = ArgMin<axis=1, select_last_index=1>(x) }", [{"x": np.stack([f32(1, NAN, 3, NAN, 2), f32(4, 9, 4, 9, 5)])}],
    want=gives(*(np.array(pair).reshape(2, 1) for pair in ((1, 1), (1, 0), (3, 3), (3, 2)))))
FACTS["top_k_of_nan"] = Fact(
    "(float[5] x, int64[1] k) => (float[] a, int64[] i, float[] b, int64[] j) { a, i = TopK(x, k) b, j = TopK<largest=0>(x, k) }",
    [{"x": f32(1, NAN, 3, -INF, 2), "k": np.array([4])}], want=gives(f32(NAN, 3, 2, 1), np.array([1, 2, 4, 0]), f32(-INF, 1, 2, 3), np.array([3, 0, 4, 2])))
FACTS["log_sum_exp_of_nan"] = Fact("(float[2,3] x) => (float[] y) { y = ReduceLogSumExp<axes=[1], keepdims=0>(x) }",
                                   [{"x": np.stack([f32(NAN, NAN, NAN), f32(-INF, -INF, -INF)])}])

# ---- LayerNormalization, written out and not.
for exponent in ((), (1,), (1, 1), (1, 1, 1)):
    for dims in ((5,), (3, 5)):
        FACTS[f"layer_norm_pattern_of_rank_{len(dims)}_with_an_exponent_of_rank_{len(exponent)}"] = Fact(
            "(float[] x) => (float[] y) { m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) p = Pow(d, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps)"
            " q = Sqrt(e) z = Div(d, q) n = Mul(z, s) y = Add(n, b) }", [{"x": floats(*dims)}],
            {"two": np.full(exponent, 2, np.float32), "eps": f32(0.1), "s": floats(5), "b": floats(5)})
for name, x, scale, bias in (("whole", (2, 1, 9), (2, 1, 9), (2, 1, 9)), ("by_row", (3, 3), (3, 1), (3, 1)), ("leading_ones", (2, 3), (1, 1, 3)[1:], (3,)),
                             ("one", (2, 3), (1,), ()), ("by_batch", (2, 3, 4), (2, 1, 1), (3, 4)), ("shorter", (2, 1, 4), (4,), (1, 4))):
    FACTS[f"layer_norm_scale_{name}"] = Fact(
        "(float[] x, float[] s, float[] b) => (float[] y, float[] m, float[] i) { y, m, i = LayerNormalization<axis=1>(x, s, b) }",
        [{"x": floats(*x), "s": floats(*scale), "b": floats(*bias)}])
FACTS["layer_norm_bias_of_a_symbol"] = Fact("(float[3,1] x, float[D] b) => (float[] y) <float[1] s={2}> { y = LayerNormalization(x, s, b) }",
                                            [{"x": floats(3, 1), "b": floats(1)}])
FACTS["gemm_c_of_a_symbol"] = Fact("(float[1,2] a, float[M,K] c) => (float[] y) <float[2,2] w={1,2,3,4}> { y = Gemm(a, w, c) }",
                                   [{"a": floats(1, 2), "c": floats(*dims)} for dims in ((1, 2), (1, 1))])
for opset, each in ((18, 2), (20, 2), (21, 4)):
    FACTS[f"group_norm_{opset}"] = Fact(f"(float[N,4,3] x, float[{each}] s, float[{each}] b) => (float[] y) {{ y = GroupNormalization<num_groups=2>(x, s, b) }}",
                                        [{"x": floats(2, 4, 3), "s": floats(each), "b": floats(each)}], opset=opset)

# ---- Resize of integers: cut off, and rounded after each axis where it is antialiased.
PIXELS = NUMBERS.integers(0, 255, (1, 2, 8, 16)).astype(np.uint8)
for mode in ("linear", "cubic"):
    for scales in ((1, 1, 1, 0.5), (1, 1, 0.5, 0.5), (1, 1, 0.6, 0.7)):
        FACTS[f"resize_antialiased_{mode}_{scales[2]}_{scales[3]}"] = Fact(
            f'(uint8[1,2,8,16] x) => (uint8[] y) {{ y = Resize<mode="{mode}", antialias=1>(x, , s) }}', [{"x": PIXELS}], {"s": f32(*scales)}, 18)
for kind in (np.uint8, np.int8, np.int32):
    for scales in ((1, 1 / 3, 1), (0.6, 1.3, 0.7), (1, 0.5, 2)):
        name = np.dtype(kind).name
        FACTS[f"resize_linear_{name}_{'_'.join(str(round(scale, 2)) for scale in scales)}"] = Fact(
            f'({name}[6,6,6] x) => ({name}[] y) {{ y = Resize<mode="linear">(x, , s) }}',
            [{"x": NUMBERS.integers(0 if kind == np.uint8 else -90, 90, (6, 6, 6)).astype(kind)}], {"s": f32(*scales)})
for nearest in ("round_prefer_ceil", "round_prefer_floor", "floor", "ceil"):
    for size, wanted in ((7, 2), (9, 2), (31, 4), (5, 13)):
        for channels in (1, 8):
            FACTS[f"resize_{nearest}_{size}_to_{wanted}_with_{channels}_channels"] = Fact(
                f'(float[1,{channels},1,{size}] x) => (float[] y) {{ c = Conv(x, w) y = Resize<coordinate_transformation_mode="asymmetric",'
                f' nearest_mode="{nearest}">(c, , , s) }}', [{"x": np.repeat(ramp(1, 1, 1, size), channels, 1)}],
                {"w": np.eye(channels, dtype=np.float32).reshape(channels, channels, 1, 1), "s": np.array([1, channels, 1, wanted])}, 13)
for mode, scale in (("nearest", 2), ("nearest", 0.7), ("linear", 1.5)):
    FACTS[f"resize_tf_half_pixel_for_nn_{mode}_{scale}"] = Fact(
        f'(float[1,1,4,4] x) => (float[] y) <float[0] r={{}}> {{ y = Resize<mode="{mode}", coordinate_transformation_mode="tf_half_pixel_for_nn">(x, r, s) }}',
        [{"x": floats(1, 1, 4, 4)}], {"s": f32(1, 1, scale, scale)}, 11)

# The common scale is a float32, and 25 / 6 times 15 is a little less than 62.5 there.
for policy, sizes in (("not_larger", (25, 10000)), ("not_larger", (49, 10000)), ("not_smaller", (25, 1))):
    FACTS[f"resize_that_keeps_its_aspect_{policy}_{sizes[0]}"] = Fact(
        f'(float[6,15] x) => (float[] y) {{ y = Resize<keep_aspect_ratio_policy="{policy}">(x, , , z) }}',
        [{"x": ramp(6, 15)}], {"z": np.array(sizes)}, 18)
# A scale of 1.1 leaves 8 channels 8, but repeats the first.
FACTS["resize_of_channels_that_keeps_their_number"] = Fact(
    '(float[1,8,4,4] x) => (float[] y) { c = Conv(x, w) y = Resize<coordinate_transformation_mode="asymmetric", nearest_mode="floor">(c, , s) }',
    [{"x": ramp(1, 8, 4, 4) % 13}], {"w": ramp(8, 8, 1, 1) % 7 - 3, "s": f32(1, 1.1, 2, 2)})
FACTS["conv_with_an_empty_auto_pad"] = Fact(
    '(float[1,16,6,6] x) => (float[] y) { y = Conv<auto_pad="", pads=[1,0,2,1]>(x, w) }',
    [{"x": ramp(1, 16, 6, 6) % 13}], {"w": ramp(16, 16, 3, 3) % 7 - 3})

# ---- Open in ONNX: docs/reference/operators.md says what is chosen and why.
MASK = np.where(np.arange(4)[:, None] == 1, -INF, np.float32(0)).repeat(4, 1).reshape(1, 1, 4, 4).astype(np.float32)
FACTS["attention_row_masked_off_is_nan"] = Fact(
    "(float[1,4,8] q, float[1,4,8] k, float[1,4,8] v, float[1,1,4,4] m) => (float[] y) <int64[4] s={0,0,2,4}, int64[3] t={0,0,8}> {"
    " a = Reshape(q, s) b = Transpose<perm=[0,2,1,3]>(a) c = Reshape(k, s) d = Transpose<perm=[0,2,3,1]>(c) e = Reshape(v, s)"
    " f = Transpose<perm=[0,2,1,3]>(e) h = MatMul(b, d) i = Add(h, m) p = Softmax<axis=-1>(i) o = MatMul(p, f) u = Transpose<perm=[0,2,1,3]>(o)"
    " y = Reshape(u, t) }", [{"q": floats(1, 4, 8), "k": floats(1, 4, 8), "v": floats(1, 4, 8), "m": MASK}])
for start, end, step in ((-5, -9, -1), (-4, -9, -2), (-5, -3, -1), (5, -9, -1), (-9, -2**63, -1), (1, -9, -2**63)):
    FACTS[f"slice_from_{start}_to_{end}_by_{step}"] = Fact(
        "(float[N] x, int64[1] s, int64[1] e, int64[1] t) => (float[] y, float[] z) <int64[1] a={0}> { y = Slice(x, s, e, a, t) z = Slice(x, cs, ce, a, ct) }",
        [{"x": ramp(3), "s": np.array([start]), "e": np.array([end]), "t": np.array([step])}],
        {"cs": np.array([start]), "ce": np.array([end]), "ct": np.array([step])})
for end in (2**31 - 1, 2**63 - 1):
    FACTS[f"slice_back_to_the_end_{end}"] = Fact(
        "(float[N] x, int64[1] e) => (float[] y, float[] z) <int64[1] s={1}, int64[1] a={0}, int64[1] t={-1}> { y = Slice(x, s, e, a, t) z = Slice(x, s, ce, a, t) }",
        [{"x": ramp(3), "e": np.array([end])}], {"ce": np.array([end])})
FACTS["slice_backwards_of_nothing"] = Fact(
    "(float[N] x) => (float[] y) <int64[1] s={-1}, int64[1] e={-9}, int64[1] a={0}, int64[1] t={-1}> { y = Slice(x, s, e, a, t) }", [{"x": ramp(0)}])
for mode in ("wrap", "reflect", "edge", "constant"):
    for begin, end in ((2, -1), (-1, 2), (1, -2), (-2, -1), (-1, 1)):
        FACTS[f"pad_{mode}_{begin}_{end}"] = Fact(f'(float[4] x, int64[2] p) => (float[] y) {{ y = Pad<mode="{mode}">(x, p) }}',
                                                  [{"x": ramp(4), "p": np.array([begin, end])}], opset=19)
for cell, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    FACTS[f"{cell.lower()}_of_sequences_without_steps"] = Fact(
        f"(float[2,2,2] x, int32[2] n, float[1,2,3] h) => (float[] y, float[] z) {{ y, z = {cell}<hidden_size=3>(x, w, r, , n, h) }}",
        [{"x": floats(2, 2, 2), "n": np.array(lengths, np.int32), "h": floats(1, 2, 3)} for lengths in ((0, 2), (0, 0), (1, 0))],
        {"w": floats(1, 3 * gates, 2), "r": floats(1, 3 * gates, 3)})
FACTS["lstm_cell_state_of_no_steps"] = Fact(
    "(float[2,1,2] x, int32[1] n, float[1,1,3] h, float[1,1,3] c) => (float[] y, float[] z, float[] u) { y, z, u = LSTM<hidden_size=3>(x, w, r, , n, h, c) }",
    [{"x": floats(2, 1, 2), "n": np.array([0], np.int32), "h": floats(1, 1, 3), "c": floats(1, 1, 3)}], {"w": floats(1, 12, 2), "r": floats(1, 12, 3)})
OUTSIDE = np.array([-1, -1.9, -2, 300, -300, 70000, 3e9, 5e9, -3e9, 1e10, 1.7e19, -1.7e19, 1e20, np.nan, np.inf, -np.inf, 0.9, -0.9, 2.0**31, -2.0**31])
# What numpy and ONNX Runtime give on x86-64.
WRAPPED = {
    "uint8": [255, 255, 254, 44, 212, 112, *[0] * 12, 0, 0], "int8": [-1, -1, -2, 44, -44, 112, *[0] * 12, 0, 0],
    "uint16": [65535, 65535, 65534, 300, 65236, 4464, *[0] * 12, 0, 0], "int16": [-1, -1, -2, 300, -300, 4464, *[0] * 12, 0, 0],
    "int32": [-1, -1, -2, 300, -300, 70000, *[-2**31] * 10, 0, 0, -2**31, -2**31],
    "int64": [-1, -1, -2, 300, -300, 70000, 3000000000, 5000000000, -3000000000, 10000000000, *[-2**63] * 6, 0, 0, 2**31, -2**31],
    "uint32": [2**32 - 1, 2**32 - 1, 2**32 - 2, 300, 2**32 - 300, 70000, 3000000000, 0, 2**31, 0, 0, 2**31, 0, 2**31, 0, 2**31, 0, 0, 2**31, 2**31],
}
for name, wanted in WRAPPED.items():
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(name))
    FACTS[f"cast_to_{name}"] = Fact(f"(double[N] x) => ({name}[] y) {{ y = Cast<to={number}>(x) }}", [{"x": OUTSIDE}],
                                    want=gives(np.array(wanted, np.dtype(name))))
    if name in ("int32", "int64"):  # these have their own loop
        rounded = np.array([-1, -1.9, 300, -3e9, np.nan, np.inf, -0.9], np.float32)
        low = -2**31 if name == "int32" else -2**63
        FACTS[f"cast_float32_to_{name}"] = Fact(f"(float[N] x) => ({name}[] y) {{ y = Cast<to={number}>(x) }}", [{"x": rounded}],
                                                want=gives(np.array([-1, -1, 300, -2**31 if name == "int32" else -3000000000, low, low, 0], np.dtype(name))))
for name, dtype in (("float", np.float32), ("double", np.float64), ("float16", np.float16)):
    most = np.finfo(dtype).max
    FACTS[f"clip_{name}_without_a_bound_keeps_within_its_numbers"] = Fact(
        f"({name}[4] x, {name} b) => ({name}[] y, {name}[] z) {{ y = Clip(x, b) z = Clip(x, , b) }}",
        [{"x": np.array([NAN, INF, -INF, 1], dtype), "b": np.array(0.5, dtype)}],
        want=gives(np.array([NAN, most, 0.5, 1], dtype), np.array([NAN, 0.5, -most, 0.5], dtype)))
FACTS["scaled_shortcut_of_an_infinity"] = Fact("(float[8,4] x) => (float[] y) <float[1] s={-0.5}> { a = Mul(x, s) y = Add(x, a) }",
                                               [{"x": np.where(ramp(8, 4) == 3, INF, ramp(8, 4)).astype(np.float32)}])
FACTS["split_by_an_empty_list_makes_equal_parts"] = Fact("(float[a,b] x, int64[c] n) => (float[d,b] y, float[e,b] z) { y, z = Split(x, n) }",
                                                          [{"x": ramp(4, 3), "n": np.zeros(0, np.int64)}, {"x": ramp(4, 3), "n": np.array([1, 3])}], opset=13)
FACTS["squeeze_of_no_axes_drops_every_1"] = Fact("(float[] x, int64[0] b) => (float[] y, float[] z) <int64[0] a={}> { y = Squeeze(x, a) z = Squeeze(x, b) }",
                                                 [{"x": floats(1, 2, 1), "b": np.zeros([0], np.int64)}])
FACTS["pools_of_nothing"] = Fact("(float[1,2,W] x) => (float[] y, float[] z) { y = GlobalAveragePool(x) z = GlobalMaxPool(x) }",
                                 [{"x": floats(1, 2, 0)}], want=gives(np.full((1, 2, 1), NAN), np.full((1, 2, 1), -INF)))
FACTS["reduce_mean_of_nothing"] = Fact("(float[2,W] x) => (float[] y, float[] z) { y = ReduceMean<axes=[1]>(x) z = ReduceMax<axes=[1]>(x) }",
                                       [{"x": floats(2, 0)}], want=gives(np.full((2, 1), NAN), np.full((2, 1), -INF)))
FACTS["max_pool_same_with_a_stride_beyond_the_kernel"] = Fact(
    '(float[1,1,N] x) => (float[] y) { y = MaxPool<auto_pad="SAME_UPPER", kernel_shape=[1], strides=[4]>(x) }', [{"x": ramp(1, 1, n)} for n in (4, 9)],
    want=lambda inputs, outputs: np.array_equal(outputs[0], inputs["x"][..., ::4]))
FACTS["conv_transpose_same_is_input_times_stride"] = Fact(
    '(float[1,1,N] x) => (float[] y) { y = ConvTranspose<auto_pad="SAME_UPPER", strides=[3]>(x, w) }', [{"x": ramp(1, 1, 2) + 1}], {"w": f32(1, 1).reshape(1, 1, 2)},
    want=gives(f32(1, 1, 0, 2, 2, 0).reshape(1, 1, 6)))
FACTS["pool_with_a_window_beyond_the_input"] = Fact(
    "(float[1,8,N] x) => (float[] y) { y = LpPool<kernel_shape=[3]>(x) }", [{"x": floats(1, 8, 2)}], want=gives(np.zeros((1, 8, 0), np.float32)))
FACTS["pool_with_a_window_far_beyond_the_input"] = Fact(
    "(float[1,8,N] x) => (float[] y) { y = LpPool<kernel_shape=[4]>(x) }", [{"x": floats(1, 8, 2)}], want="is larger than the padded input")
FACTS["pools_whose_only_window_is_cut"] = Fact(
    "(float[1,1,N] x) => (float[] y, float[] z) { y = MaxPool<kernel_shape=[3], strides=[2]>(x) z = AveragePool<kernel_shape=[3], strides=[2]>(x) }",
    [{"x": ramp(1, 1, 2)}], want=gives(f32(1).reshape(1, 1, 1), f32(0.5).reshape(1, 1, 1)))
for version in (11, 18, 19, 22):
    FACTS[f"averages_of_windows_that_are_cut_and_count_padding_{version}"] = Fact(
        "(float[1,C,H,W] x) => (float[] y, float[] z) { y = AveragePool<kernel_shape=[4,4], strides=[3,3], count_include_pad=1>(x)"
        " z = AveragePool<kernel_shape=[4,4], strides=[3,3], pads=[1,0,0,1], count_include_pad=1>(x) }",
        [{"x": floats(1, channels, size, size)} for size in (1, 2, 3) for channels in (1, 9)], opset=version)
    FACTS[f"averages_of_windows_that_are_cut_and_count_padding_with_ceil_mode_{version}"] = Fact(
        "(float[1,C,H,W] x) => (float[] y, float[] z) { y = AveragePool<kernel_shape=[2,2], strides=[3,1], ceil_mode=1, count_include_pad=1>(x)"
        " z = AveragePool<kernel_shape=[4,4], strides=[3,3], pads=[1,0,0,1], ceil_mode=1, count_include_pad=1>(x) }",
        [{"x": floats(1, channels, *size)} for size in ((1, 2), (2, 2), (3, 1)) for channels in (1, 9)], opset=version)
FACTS["averages_of_windows_with_gaps_that_are_cut_and_count_padding"] = Fact(
    "(float[1,C,H,W] x) => (float[] y, float[] z) { y = AveragePool<kernel_shape=[3,3], strides=[4,4], dilations=[2,2], count_include_pad=1>(x)"
    " z = AveragePool<kernel_shape=[3,2], strides=[3,3], dilations=[2,1], pads=[1,0,1,0], count_include_pad=1>(x) }",
    [{"x": floats(1, channels, size, size)} for size in (2, 3) for channels in (1, 9)], opset=22)
FACTS["max_pool_same_with_dilations"] = Fact(
    '(float[1,1,5] x) => (float[] y) { y = MaxPool<auto_pad="SAME_UPPER", kernel_shape=[2], dilations=[2]>(x) }', [{"x": ramp(1, 1, 5)}],
    want=gives(f32(1, 2, 3, 4, 3).reshape(1, 1, 5)))
FACTS["non_zero_of_a_scalar"] = Fact("(float x) => (int64[] y) { y = NonZero(x) }", [{"x": np.float32(2).reshape(())}], want=gives(np.zeros((0, 1), np.int64)))
FACTS["matmul_of_nothing"] = Fact("(float[3,K] x, float[K] z) => (float[] y) { y = MatMul(x, z) }", [{"x": floats(3, 0), "z": floats(0)}],
                                  want=gives(np.zeros(3, np.float32)))
FACTS["resize_crops_where_the_size_stays"] = Fact(
    '(float[1,1,1,5] x) => (float[] y) <float[8] r={0,0,0,0.25,1,1,1,0.75}, float[4] s={1,1,1,1}> {'
    ' y = Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize">(x, r, s) }', [{"x": ramp(1, 1, 1, 5)}],
    want=gives(f32(1, 1.5, 2, 2.5, 3).reshape(1, 1, 1, 5)), opset=13)
FACTS["resize_leaves_out_what_has_no_weight"] = Fact(
    '(float[1,1,1,3] x) => (float[] y) <float[4] s={1,1,1,2}> { y = Resize<mode="linear", coordinate_transformation_mode="asymmetric">(x, , s) }',
    [{"x": f32(1, INF, 3).reshape(1, 1, 1, 3)}], want=gives(f32(1, INF, INF, INF, 3, 3).reshape(1, 1, 1, 6)), opset=13)
FACTS["upsample_is_gone_since_10"] = Fact("(float[1,1,2,2] x) => (float[] y) <float[4] s={1,1,2,2}> { y = Upsample(x, s) }", [{"x": floats(1, 1, 2, 2)}],
                                          opset=13, want="is deprecated since opset 10")
FACTS["gemm_of_nothing_keeps_beta"] = Fact("(float[2,K] a, float[K,3] b) => (float[] y) <float c={4}> { y = Gemm<beta=0.25>(a, b, c) }",
                                           [{"a": floats(2, 0), "b": floats(0, 3)}], want=gives(np.ones((2, 3), np.float32)))
# The schema's default, written out.
FACTS["rnn_with_activations_for_two_directions"] = Fact(
    '(float[2,N,3] x) => (float[] y, float[] h) { y, h = RNN<hidden_size=4, activations=["Tanh", "Relu"]>(x, w, r) }', [{"x": floats(2, n, 3)} for n in (1, 2)],
    {"w": floats(1, 4, 3), "r": floats(1, 4, 4)})
FACTS["reduce_axes_that_repeat"] = Fact("(float[2,3] x) => (float[] y) { y = ReduceMax<axes=[1,-1]>(x) }", [{"x": floats(2, 3)}], want="Axis 1 is repeated")
FACTS["prelu_slope_of_more_dimensions"] = Fact("(float[N,3] x, float[3] z) => (float[] y, float[] k) <float[1,1,1] a={0.5}, float[2,1] b={0.5,2}> {"
                                               " y = PRelu(x, a) k = PRelu(z, b) }", [{"x": floats(n, 3), "z": floats(3)} for n in (2, 1, 0)])
FACTS["one_hot_of_a_fraction_is_off"] = Fact("(float[N] x) => (float[] y) <float d = {4}, float[2] v = {2,5}> { y = OneHot(x, d, v) }",
                                             [{"x": f32(3.75, 1, -1, -0.5, 0, 4)}])
FACTS["keepdims_of_two_drops_the_axes"] = Fact("(float[N,3] x) => (float[] y, int64[] z) { y = ReduceMax<axes=[1], keepdims=2>(x) z = ArgMin<axis=1, keepdims=2>(x) }",
                                               [{"x": floats(2, 3)}])
for rows, columns in ((0, 3), (2, 0), (0, 0)):
    FACTS[f"product_of_bytes_{rows}_by_{columns}"] = Fact(
        "(uint8[M,4] x, uint8[4,N] w, uint8 z, float s) => (int32[] y, float[] k) { y = MatMulInteger(x, w, z) a = Cast<to=1>(y) k = Mul(a, s) }",
        [{"x": np.ones((rows, 4), np.uint8), "w": np.ones((4, columns), np.uint8), "z": np.array(3, np.uint8), "s": np.array(0.5, np.float32)}])
FACTS["sequence_map_hands_on_a_constant"] = Fact(
    "(seq(float[N]) x) => (seq(float[]) y) <float[2] w = {0.5,3}> { y = SequenceMap<body = b (float[K] a, float[M] c) => (float[K] d)"
    " { t = ReduceSum<keepdims=0>(a) d = Mul(c, t) }>(x, w) }", [{"x": [f32(1, 2), f32(4)]}],
    want=lambda inputs, outputs: [array.tolist() for array in outputs[0]] == [[1.5, 9], [2, 12]])
FACTS["max_roi_pool_rounds_edges_of_float32"] = Fact(
    "(float[1,1,4,5] x, float[N,5] r) => (float[] y) { y = MaxRoiPool<pooled_shape=[2,1], spatial_scale=0.37>(x, r) }",
    [{"x": ramp(1, 1, 4, 5), "r": f32(0, 8.378378, 5.675676, 9.459459, 5.9459457, 0, 0, 0, 4.054054, 6.756757).reshape(2, 5)}])
FACTS["reshape_infers_beside_a_copied_zero"] = Fact(
    "(float[N,T,8] x) => (float[] y, float[] z) <int64[4] a = {0,0,2,-1}, int64[3] b = {0,0,-1}> { y = Reshape(x, a) z = Reshape(y, b) }",
    [{"x": floats(n, t, 8)} for n, t in ((2, 0), (2, 3), (0, 3))],
    want=lambda inputs, outputs: outputs[0].shape == (*inputs["x"].shape[:2], 2, 4) and np.array_equal(outputs[1], inputs["x"]))
FACTS["resize_that_keeps_the_sizes_interpolates"] = Fact(
    '(float[N,2] x) => (float[] y) <float[2] s = {1,1.25}> { y = Resize<mode="linear">(x, , s) }', [{"x": f32(10, 0).reshape(1, 2)}],
    want=lambda inputs, outputs: np.allclose(outputs[0], [[10, 3]], atol=1e-5))
FACTS["reduce_sum_of_nothing_keeps_ones"] = Fact("(float[N,3] x) => (float[] y) <int64[2] a={0,1}> { y = ReduceSum(x, a) }", [{"x": floats(0, 3)}],
                                                 want=gives(np.zeros((1, 1), np.float32)))

# ---- The mask of Dropout: all zero where the specification leaves it open, a number before version 10.
for opset, kind in ((7, "float"), (9, "float"), (10, "bool"), (12, "bool"), (13, "bool")):
    FACTS[f"dropout_mask_of_version_{opset}"] = Fact(f"(float[n,3] x) => (float[n,3] y, {kind}[n,3] m) {{ y, m = Dropout (x) }}",
                                                     [{"x": ramp(2, 3)}], opset=opset)


@pytest.fixture(scope="module", params=SETTINGS)
def outcomes(request, tmp_path_factory):
    options, environment = SETTINGS[request.param]
    cases = [driver.Case(name, fact.model, fact.feeds[0], [], [(feed, []) for feed in fact.feeds[1:]]) for name, fact in FACTS.items()]
    return driver.run_all(cases, tmp_path_factory.mktemp("edges"), options, environment)


@functools.cache
def reference():
    import tempfile
    asked = [edges_test.random_edges.Case(name, fact.model, fact.feeds, []) for name, fact in FACTS.items() if fact.want is None]
    with tempfile.TemporaryDirectory() as folder:
        return edges_test.by_onnxruntime(asked, folder)


def problem_of(name, fact, outcome):
    if outcome.status == "crashed":
        return "crashed"
    for index, feed in enumerate(fact.feeds):
        status, outputs = outcome.feeds[index] if index < len(outcome.feeds) else (outcome.status, [])
        if isinstance(fact.want, str):
            if fact.want not in status:
                return f"run {index}: {status}"
            continue
        if status != "ok":
            return f"run {index}: {status}"
        if fact.want is not None:
            if not fact.want(feed, outputs):
                return f"run {index} gives {[array.tolist() for array in outputs]}"
            continue
        said, wanted = reference()[name][index]
        if said != "ok":
            return f"run {index}: onnxruntime says {said}"
        exact = all(array.dtype.kind != "f" for array in wanted)
        difference = edges_test.differs(wanted, outputs)
        if difference or exact and not all(np.array_equal(want, got) for want, got in zip(wanted, outputs)):
            return f"run {index}: {difference}"
    return None


def test_edge_cases_give_what_is_documented(outcomes):
    failures = {name: problem for name, fact in FACTS.items() if (problem := problem_of(name, fact, outcomes[name]))}
    assert not failures, "\n".join(f"{name}: {problem}" for name, problem in failures.items())
