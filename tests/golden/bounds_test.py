"""The sizes of a node bound the memory that it takes. Operands and attributes that ask for absurd memory, or overflow,
give a status that names the node and a number of the request; never a crash or a hang. Numbers that are large but ask
for little are taken. Each operand is a constant in one model and known at run time only in another."""
import re
import resource

import numpy as np
import onnx
import onnx.parser
import pytest

import driver
from rows_test import tensor_of

GIB = 1 << 30
ADDRESS_SPACE = 6 * GIB  # of the driver; what is asked for below is more, and what the right cases need is far less
LARGE = (1 << 40, 1 << 62, (1 << 63) - 1)
I = lambda *values: np.array(values, np.int64)
S = lambda value: np.array(value, np.int64)
X = np.ones((2, 3), np.float32)
IMAGE = np.ones((1, 1, 8, 8), np.float32)

REFUSED, RIGHT = {}, {}  # name -> (opset, body, {name: array})


def refused(name, body, opset=18, **values):
    REFUSED[name] = (opset, body, values)


def right(name, body, opset=18, **values):
    RIGHT[name] = (opset, body, values)


# Eight bytes would be taken for a text's address.
refused("BitCast to strings", "y = BitCast<to=8>(x)", opset=26, x=np.array([1.75, 2.0]))

for n in LARGE:
    refused(f"ConstantOfShape {n}", "y = ConstantOfShape(a)", a=I(n))
    refused(f"ConstantOfShape {n} twice", "y = ConstantOfShape(a)", a=I(n, 4))
    refused(f"Expand {n}", "y = Expand(x, a)", x=X, a=I(n, 2, 3))
    refused(f"Tile {n}", "y = Tile(x, a)", x=X, a=I(n, 1))
    refused(f"Pad {n}", "y = Pad(x, a)", x=X, a=I(n, 0, 0, 0))
    refused(f"Pad both {n}", "y = Pad(x, a)", x=X, a=I(n, n, n, n))
    for mode in ("edge", "reflect", "wrap"):
        refused(f"Pad {mode} {n}", f'y = Pad<mode="{mode}">(x, a)', opset=19, x=X, a=I(n, 0, 0, 0))
    refused(f"Range {n}", "y = Range(a, b, c)", a=S(0), b=S(n), c=S(1))
    refused(f"OneHot {n}", "y = OneHot(a, b, c)", a=I(1, 2), b=S(n), c=np.array([0, 1], np.float32))
    refused(f"Resize sizes {n}", 'y = Resize<mode="nearest">(x, , , a)', x=IMAGE, a=I(1, 1, n, 8))
    refused(f"Resize linear sizes {n}", 'y = Resize<mode="linear">(x, , , a)', x=IMAGE, a=I(1, 1, n, 8))
    refused(f"TopK {n}", "y, z = TopK(x, a)", x=X, a=I(n))
    refused(f"Reshape {n}", "y = Reshape(x, a)", x=X, a=I(n, -1))
    refused(f"Trilu of Expand {n}", "b = Expand(x, a) y = Trilu(b)", x=X, a=I(n, 2, 3))
    refused(f"Loop scan output {n}", "c = Constant<value = bool {1}>() b = Expand(x, l) y = Loop(a, c) <body = b (int64 i, bool ci) => (bool co, float[4096,4096] k) { co = Identity(ci) k = Identity(b) }>", x=X[:1, :1], a=S(n), l=I(1 << 12, 1 << 12))
for f in (1e12, 1e30, float("inf"), float("nan"), -1.0, 0.0):
    refused(f"Resize scales {f}", 'y = Resize<mode="linear">(x, , a)', x=IMAGE, a=np.array([1, 1, f, 1], np.float32))
    refused(f"Upsample scales {f}", 'y = Upsample<mode="nearest">(x, a)', opset=9, x=IMAGE, a=np.array([1, 1, f, 1], np.float32))
for f in (1e-30, 1e-300, float("nan"), 0.0):
    refused(f"Range step {f}", "y = Range(a, b, c)", a=np.array(0.0), b=np.array(1e12), c=np.array(f))
for n in (-1, -(1 << 62), -(1 << 63)):
    refused(f"ConstantOfShape {n}", "y = ConstantOfShape(a)", a=I(n))
    refused(f"Tile {n}", "y = Tile(x, a)", x=X, a=I(n, 1))
    refused(f"Pad {n}", "y = Pad(x, a)", x=X, a=I(n * 4, 0, 0, 0) if n == -1 else I(n, 0, 0, 0))
    refused(f"OneHot {n}", "y = OneHot(a, b, c)", a=I(1, 2), b=S(n), c=np.array([0, 1], np.float32))
    refused(f"TopK {n}", "y, z = TopK(x, a)", x=X, a=I(n))
    refused(f"Resize sizes {n}", 'y = Resize<mode="nearest">(x, , , a)', x=IMAGE, a=I(1, 1, n, 8))
refused("Pad with an axis far away", "y = Pad(x, a, , b)", x=X, a=I(1, 1), b=I(1 << 62))
refused("Split far beyond", "y, z = Split<axis=1>(x, a)", x=X, a=I(1 << 62, (1 << 62) + 3))
refused("Split around the corner", "y, z = Split<axis=1>(x, a)", x=X, a=I((1 << 63) - 1, -(1 << 63) + 4))
refused("Expand by many", "y = Expand(x, a)", x=np.ones((1, 1, 1), np.float32), a=I(1 << 21, 1 << 21, 1 << 21))
for pads, text in (((1 << 40, 0, 1 << 40, 0), "pads"), ((1 << 62, 0, 1 << 62, 0), "overflow")):
    inside = ",".join(map(str, pads))
    refused(f"MaxPool {text}", f"y = MaxPool<kernel_shape=[3,3], pads=[{inside}]>(x)", x=IMAGE)
    refused(f"AveragePool {text}", f"y = AveragePool<kernel_shape=[3,3], pads=[{inside}]>(x)", x=IMAGE)
    refused(f"LpPool {text}", f"y = LpPool<kernel_shape=[3,3], pads=[{inside}]>(x)", x=IMAGE)
    refused(f"Conv {text}", f"y = Conv<pads=[{inside}]>(x, w)", x=IMAGE, w=np.ones((1, 1, 3, 3), np.float32))
for field in ("strides", "dilations", "output_padding"):
    for n in LARGE:
        refused(f"ConvTranspose {field} {n}", f"y = ConvTranspose<{field}=[{n},1]>(x, w)", x=IMAGE, w=np.ones((1, 1, 3, 3), np.float32))
# The values between two of its axes are more than its input and output together.
refused("Resize antialias", 'y = Resize<mode="linear", antialias=1>(x, , , a)', x=np.ones((1, 1, 200000, 1), np.uint8), a=I(1, 1, 1, 200000))
# Its table has 32 bytes for each byte of the output.
refused("Resize one long axis", 'y = Resize<mode="linear">(x, , , a)', x=np.ones((1, 1, 1, 1), np.uint8), a=I(1, 1, 1, 1 << 31))
refused("ConvTranspose output_shape", f"y = ConvTranspose<output_shape=[{1 << 40},8]>(x, w)", x=IMAGE, w=np.ones((1, 1, 3, 3), np.float32))
for n in LARGE:
    refused(f"Conv dilations {n}", f"y = Conv<dilations=[{n},1]>(x, w)", x=IMAGE, w=np.ones((1, 1, 3, 3), np.float32))
    refused(f"MaxPool dilations {n}", f"y = MaxPool<kernel_shape=[3,3], dilations=[{n},1]>(x)", x=IMAGE)
    refused(f"MaxPool kernel {n}", f"y = MaxPool<kernel_shape=[{n},1]>(x)", x=IMAGE)
    refused(f"AveragePool kernel {n}", f"y = AveragePool<kernel_shape=[{n},1]>(x)", x=IMAGE)
    refused(f"DepthToSpace {n}", f"y = DepthToSpace<blocksize={n}>(x)", x=IMAGE)
    refused(f"SpaceToDepth {n}", f"y = SpaceToDepth<blocksize={n}>(x)", x=IMAGE)
    refused(f"LSTM hidden {n}", f"y = LSTM<hidden_size={n}>(x, w, r)", x=np.ones((2, 1, 2), np.float32), w=np.ones((1, 4, 2), np.float32),
            r=np.ones((1, 4, 1), np.float32))
    refused(f"Split num_outputs {n}", f"y = Split<num_outputs={n}>(x)", x=X)

for n in LARGE:
    refused(f"HannWindow {n}", "y = HannWindow(a)", a=S(n))
    refused(f"DFT {n}", "y = DFT<axis=1>(x, a)", x=np.ones((1, 4, 1), np.float32), a=S(n))
    refused(f"Col2Im {n}", "y = Col2Im(x, a, b)", x=np.ones((1, 4, 9), np.float32), a=I(n, 4), b=I(2, 2))
    refused(f"Col2Im block {n}", "y = Col2Im(x, a, b)", x=np.ones((1, 4, 9), np.float32), a=I(4, 4), b=I(n, 2))
    refused(f"CenterCropPad {n}", "y = CenterCropPad(x, a)", x=X, a=I(n, 3))
    refused(f"AffineGrid {n}", "y = AffineGrid(x, a)", opset=20, x=np.ones((1, 2, 3), np.float32), a=I(1, 1, n, 4))
    refused(f"MelWeightMatrix {n}", "y = MelWeightMatrix(a, b, c, d, e)", a=S(n), b=S(64), c=S(8000), d=np.array(0.0, np.float32), e=np.array(4000.0, np.float32))
    refused(f"MelWeightMatrix length {n}", "y = MelWeightMatrix(a, b, c, d, e)", a=S(8), b=S(n), c=S(8000), d=np.array(0.0, np.float32), e=np.array(4000.0, np.float32))
    refused(f"RandomNormal {n}", f"y = RandomNormal<shape=[{n},2]>()")
    refused(f"Multinomial {n}", f"y = Multinomial<sample_size={n}>(x)", x=X)
    refused(f"RoiAlign {n}", f"y = RoiAlign<output_height={n}>(x, a, b)", x=IMAGE, a=np.ones((1, 4), np.float32), b=I(0))
    refused(f"RoiAlign samples {n}", f"y = RoiAlign<sampling_ratio={n}>(x, a, b)", x=IMAGE, a=np.ones((1, 4), np.float32), b=I(0))
    refused(f"MaxRoiPool {n}", f"y = MaxRoiPool<pooled_shape=[{n},1]>(x, a)", x=IMAGE, a=np.ones((1, 5), np.float32))
    refused(f"MaxUnpool {n}", f"y = MaxUnpool<kernel_shape=[2,2], strides=[{n},1]>(x, a)", x=IMAGE, a=np.zeros((1, 1, 8, 8), np.int64))
for f in (1e9, 1e30, float("inf")):
    refused(f"RoiAlign of {f}", "y = RoiAlign(x, a, b)", x=IMAGE, a=np.array([[0, 0, f, 4]], np.float32), b=I(0))
for n in (-1, 1, 1 << 62, -(1 << 63)):
    refused(f"RoiAlign of image {n}", "y = RoiAlign(x, a, b)", x=IMAGE, a=np.ones((1, 4), np.float32), b=I(n))
    refused(f"MaxRoiPool of image {n}", "y = MaxRoiPool<pooled_shape=[1,1]>(x, a)", x=IMAGE, a=np.array([[n, 0, 0, 4, 4]], np.float32))
refused("MaxUnpool beyond its image", "y = MaxUnpool<kernel_shape=[2,2]>(x, a)", x=IMAGE, a=np.full((1, 1, 8, 8), 81))
refused("MaxUnpool before its image", "y = MaxUnpool<kernel_shape=[2,2]>(x, a)", x=IMAGE, a=np.full((1, 1, 8, 8), -1))
refused("STFT without an end", "y = STFT(x, a, , b)", x=np.ones((1, 4, 1), np.float32), a=S(0), b=S(2))
refused("STFT beyond its signal", "y = STFT(x, a, , b)", x=np.ones((1, 4, 1), np.float32), a=S(1), b=S(5))
refused("NonMaxSuppression threshold", "y = NonMaxSuppression(x, a, b, c)", x=np.ones((1, 2, 4), np.float32), a=np.ones((1, 1, 2), np.float32), b=S(1),
        c=np.array(1.5, np.float32))
refused("loss of a class that is none", "y = NegativeLogLikelihoodLoss(x, a)", x=X, a=I(0, 3))

# These are large in a number only: their sizes are small, and so is what they take.
for rank in (1, 2):
    dims, ones = ",".join(["8"] * rank), ",".join(["1"] * rank)
    for op in ("MaxPool", "AveragePool", "LpPool"):
        opset = 19 if op == "AveragePool" else 18
        for far in (1 << 12, 1 << 20, 1 << 28):
            pads = ",".join([str(far)] * (2 * rank))
            right(f"{op} {rank}d dilation {far}", f"y = {op}<kernel_shape=[{','.join(['3'] * rank)}], dilations=[{','.join([str(far)] * rank)}], "
                  f"pads=[{pads}], strides=[{','.join([str(far)] * rank)}]>(x)", opset=opset, x=np.ones((1, 8) + (8,) * rank, np.float32))
    for far in (1 << 12, 1 << 20, 1 << 28):
        lists = f"dilations=[{','.join([str(far)] * rank)}], pads=[{','.join([str(far)] * (2 * rank))}], strides=[{','.join([str(far)] * rank)}]"
        right(f"Conv {rank}d dilation {far}", f"y = Conv<{lists}>(x, w)", x=np.ones((1, 8) + (8,) * rank, np.float32),
              w=np.ones((8, 8) + (3,) * rank, np.float32))
        right(f"Conv {rank}d depthwise dilation {far}", f"y = Conv<group=8, {lists}>(x, w)", x=np.ones((1, 8) + (8,) * rank, np.float32),
              w=np.ones((8, 1) + (3,) * rank, np.float32))
    right(f"Conv {rank}d stride {1 << 40}", f"y = Conv<strides=[{','.join([str((1 << 31) - 1)] * rank)}]>(x, w)", x=np.ones((1, 8) + (8,) * rank, np.float32),
          w=np.ones((8, 8) + (3,) * rank, np.float32))
right("GridSample far", "y = GridSample(x, a)", opset=20, x=IMAGE, a=np.array([1e30, -1e30, np.inf, -np.inf, np.nan, 0.0], np.float32).reshape(1, 1, 3, 2))
right("GridSample far linear border", 'y = GridSample<padding_mode="border">(x, a)', opset=20, x=IMAGE,
      a=np.array([1e30, -1e30, np.inf, -np.inf, 0.5, 0.0], np.float32).reshape(1, 1, 3, 2))
for padding in ("border", "reflection"):
    right(f"GridSample far {padding}", f'y = GridSample<padding_mode="{padding}", mode="cubic">(x, a)', opset=20, x=IMAGE,
          a=np.array([1e30, -1e30, np.inf, -np.inf, np.nan, 0.0], np.float32).reshape(1, 1, 3, 2))
right("DeformConv far", "y = DeformConv(x, a, b)", opset=19, x=IMAGE, a=np.ones((1, 1, 1, 1), np.float32), b=np.tile(np.array([1e30, np.nan, -np.inf, 3], np.float32), 32).reshape(1, 2, 8, 8))
right("MaxRoiPool far", "y = MaxRoiPool<pooled_shape=[2,2]>(x, a)", x=IMAGE, a=np.array([[0, -1e30, np.nan, np.inf, 1e30]], np.float32))
right("RoiAlign of nothing", "y = RoiAlign(x, a, b)", x=IMAGE, a=np.array([[0, 0, np.nan, 4]], np.float32), b=I(0))
right("RoiAlign outside", "y = RoiAlign(x, a, b)", x=IMAGE, a=np.array([[-1e6, -1e6, -1e6, -1e6]], np.float32), b=I(0))
right("STFT of one long step", "y = STFT(x, a, , b)", x=np.ones((1, 4, 1), np.float32), a=S((1 << 63) - 1), b=S(2))
right("EyeLike far", f"y = EyeLike<k={1 << 62}>(x)", x=X)
right("Trilu far", "y = Trilu(x, a)", x=X, a=S(1 << 62))
right("Trilu far below", "y = Trilu(x, a)", x=X, a=S(-(1 << 63)))
right("Slice far", "y = Slice(x, a, b, c, d)", x=X, a=I(-(1 << 63)), b=I((1 << 63) - 1), c=I(1), d=I((1 << 63) - 1))
right("Slice far backwards", "y = Slice(x, a, b, c, d)", x=X, a=I((1 << 63) - 1), b=I(-(1 << 63)), c=I(1), d=I(-(1 << 63)))
right("Range of nothing", "y = Range(a, b, c)", a=S(0), b=S(-(1 << 63)), c=S(1))
right("LRN of all", f"y = LRN<size={(1 << 31) - 1}>(x)", x=IMAGE)
right("Loop that stops", "c = Constant<value = bool {1}>() y = Loop(a, c) <body = b (int64 i, bool ci) => (bool co, float[2,3] k) { co = Constant<value = bool {0}>() k = Identity(x) }>",
      x=X, a=S((1 << 63) - 1))


def model(opset, body, values, constants):
    names = {1: "float", 2: "uint8", 7: "int64", 11: "double"}
    kinds = {name: f"{names[driver.type_number(value)]}[{','.join(map(str, value.shape))}]" for name, value in values.items()}
    outputs = "float y" if "y, z" not in body else "float y, float z"
    inputs = ", ".join(f"{kinds[name]} {name}" for name in values if name not in constants)
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {{ {body} }}'
    made = onnx.parser.parse_model(text)
    for output in made.graph.output:
        output.ClearField("type")
    for at, node in enumerate(made.graph.node):
        node.name = f"asked {'abc'[at]}"
    for name in constants:
        made.graph.initializer.append(tensor_of(name, values[name]))
    return made.SerializeToString()


def cases_of(table):
    for name, (opset, body, values) in table.items():
        every = tuple(values)
        for constants in dict.fromkeys([(), every[1:], every]):
            given = {key: value for key, value in values.items() if key not in constants}
            yield driver.Case(f"{name} constants {','.join(constants)}", model(opset, body, values, constants), given, [None])


def run(cases, folder):
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, limit[1]))
    try:
        return driver.run_all(cases, folder, timeout=300)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)


def test_absurd_requests_are_refused_with_the_node_and_a_number(tmp_path):
    outcomes = run(list(cases_of(REFUSED)), tmp_path)
    problems = []
    for name, outcome in outcomes.items():
        code = outcome.status.split(":")[0]
        if code not in ("invalid_argument", "resource_exhausted", "out_of_range", "unsupported"):
            problems.append(f"{name}: {outcome.status}")
        elif "asked" not in outcome.status or not re.search("[0-9]|inf|nan", outcome.status.split(":", 1)[1]):
            problems.append(f"{name}: names no node or number: {outcome.status}")
    assert not problems, "\n".join(problems)


def test_numbers_that_ask_for_little_are_taken(tmp_path):
    outcomes = run(list(cases_of(RIGHT)), tmp_path)
    problems = [f"{name}: {outcome.status}" for name, outcome in outcomes.items() if not outcome.ok]
    assert not problems, "\n".join(problems)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", "-s"]))
