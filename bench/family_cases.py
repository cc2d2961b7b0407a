"""The cases of bench/families.py: a model for each operator family, of a size that takes a fraction of a millisecond to
several milliseconds. Values are the same in each process."""
import dataclasses
import zlib

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

OPSETS = {"": 21, "com.microsoft": 1, "ai.onnx.ml": 3}
DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8,
          "u8": np.uint8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "bool": np.bool_}
NUMBERS = {np.dtype(dtype): number for dtype, number in (
    (np.float32, 1), (np.uint8, 2), (np.int8, 3), (np.int16, 5), (np.int32, 6), (np.int64, 7), (np.bool_, 9),
    (np.float16, 10), (np.float64, 11), (ml_dtypes.bfloat16, 16))}


@dataclasses.dataclass
class Tensor:
    """An input: run-time unless `constant`. `type` empty: the type of the case. Numbers are normal, or lie in
    [low, high)."""
    shape: tuple
    type: str = ""
    low: float | None = None
    high: float = 1
    constant: bool = False
    value: np.ndarray | None = None

    def make(self, generator, dtype):
        if self.value is not None:
            return np.asarray(self.value, dtype if self.type == "case" else None)
        dtype = np.dtype(DTYPES[self.type] if self.type else dtype)
        if dtype == np.bool_:
            return generator.uniform(size=self.shape) < 0.5
        if dtype.kind in "iu":
            low = self.low if self.low is not None else 0 if dtype.kind == "u" else -100
            high = self.high if self.low is not None else 100
            return generator.integers(int(low), int(high), self.shape).astype(dtype)
        if self.low is not None:
            return generator.uniform(self.low, self.high, self.shape).astype(dtype)
        return generator.standard_normal(self.shape, np.float32).astype(dtype)


def t(*shape, **more):
    return Tensor(shape, **more)


def weight(*shape, **more):
    """A constant, small enough for sums over it to stay near 1."""
    return Tensor(shape, **({"low": -0.1, "high": 0.1} | more), constant=True)


def integers(high, *shape, low=0, **more):
    return Tensor(shape, type=more.pop("type", "i64"), low=low, high=high, **more)


def fixed(*values, type="i64"):
    return Tensor((len(values),), constant=True, value=np.array(values, DTYPES[type]))


def scalar(value, type="f32", constant=True):
    return Tensor((), constant=constant, value=np.array(value, DTYPES[type]))


@dataclasses.dataclass
class Case:
    family: str
    name: str
    type: str
    op: str
    inputs: list
    attributes: dict
    outputs: int = 1
    domain: str = ""
    opset: int | None = None
    random: bool = False

    def save(self, path):
        """Writes the model and returns what to feed."""
        generator = np.random.default_rng(zlib.crc32(f"{self.name} {self.type}".encode()))
        names, feeds, constants, graph_inputs = [], {}, [], []
        for index, tensor in enumerate(self.inputs):
            if tensor is None:
                names.append("")
                continue
            names.append(f"x{index}")
            value = tensor.make(generator, DTYPES[self.type])
            number = NUMBERS[value.dtype]
            if tensor.constant:
                constants.append(helper.make_tensor(names[-1], number, value.shape, value.tobytes(), raw=True))
            else:
                feeds[names[-1]] = np.ascontiguousarray(value)
                graph_inputs.append(helper.make_tensor_value_info(names[-1], number, value.shape))
        results = [f"y{index}" for index in range(self.outputs)]
        attributes = {key: value(DTYPES[self.type]) if callable(value) else value
                      for key, value in self.attributes.items()}
        node = helper.make_node(self.op, names, results, domain=self.domain, **attributes)
        graph = helper.make_graph([node], "family", graph_inputs, [onnx.ValueInfoProto(name=name) for name in results],
                                  constants)
        opset = self.opset or OPSETS[self.domain]
        imports = [helper.make_opsetid("", 21 if self.domain else opset)]
        if self.domain:
            imports.append(helper.make_opsetid(self.domain, opset))
        # ONNX Runtime 1.31 reads IR 11 whatever the opset.
        onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10 if opset < 23 else 11), path)
        return feeds


CASES = []


def add(family, name, op, inputs, types="f32", *, outputs=1, domain="", model=None, random=False, **attributes):
    for type in types.split():
        CASES.append(Case(family, name, type, op, inputs, attributes, outputs, domain, model, random))


def convolutions():
    def conv(name, x, w, types="f32 f16", op="Conv", **more):
        add("conv", name, op, [t(*x), weight(*w)], types, **more)

    same = {"pads": [1, 1, 1, 1]}
    conv("Conv 3x3 64 to 64", (1, 64, 56, 56), (64, 64, 3, 3), **same)
    conv("Conv 3x3 256 to 256, 14x14", (1, 256, 14, 14), (256, 256, 3, 3), **same)
    conv("Conv 1x1 256 to 64", (1, 256, 56, 56), (64, 256, 1, 1))
    conv("Conv 7x7 s2 stem", (1, 3, 224, 224), (64, 3, 7, 7), pads=[3] * 4, strides=[2, 2])
    conv("Conv depthwise 3x3", (1, 144, 56, 56), (144, 1, 3, 3), group=144, **same)
    conv("Conv depthwise 5x5 s2", (1, 144, 56, 56), (144, 1, 5, 5), group=144, pads=[2] * 4, strides=[2, 2])
    conv("Conv 3x3 32 groups", (1, 128, 56, 56), (128, 4, 3, 3), group=32, **same)
    conv("Conv 3x3 dilated", (1, 64, 56, 56), (64, 64, 3, 3), pads=[2] * 4, dilations=[2, 2])
    conv("Conv 1-D k5", (1, 128, 1000), (128, 128, 5), pads=[2, 2])
    conv("Conv 1-D depthwise k31", (1, 256, 500), (256, 1, 31), group=256, pads=[15, 15])
    conv("Conv 1-D k10 s5, 1 to 512", (1, 1, 16000), (512, 1, 10), "f32", strides=[5])
    conv("Conv 1-D k3 s2, 512 to 512", (1, 512, 799), (512, 512, 3), "f32", strides=[2])
    conv("Conv 3-D 3x3x3", (1, 16, 16, 28, 28), (32, 16, 3, 3, 3), pads=[1] * 6)
    conv("Conv 3-D 3x3x3 64 to 64", (1, 64, 8, 28, 28), (64, 64, 3, 3, 3), "f32", pads=[1] * 6)
    conv("Conv 3-D stem", (1, 3, 8, 112, 112), (32, 3, 3, 7, 7), "f32", pads=[1, 3, 3] * 2, strides=[1, 2, 2])
    conv("Conv 3-D 1x1x1", (1, 64, 8, 28, 28), (128, 64, 1, 1, 1), "f32")
    conv("Conv 3-D 3x1x1", (1, 64, 8, 28, 28), (64, 64, 3, 1, 1), "f32", pads=[1, 0, 0] * 2)
    conv("Conv 3x3 s2 stem to 16", (1, 3, 320, 320), (16, 3, 3, 3), "f32", pads=[1] * 4, strides=[2, 2])
    # Heads that give a mask, a depth or a colour image, and what few channels become.
    conv("Conv 9x9 32 to 3", (1, 32, 128, 128), (3, 32, 9, 9), pads=[4] * 4)
    conv("Conv 3x3 64 to 3", (1, 64, 128, 128), (3, 64, 3, 3), **same)
    conv("Conv 3x3 16 to 1", (1, 16, 128, 256), (1, 16, 3, 3), **same)
    conv("Conv 1x1 32 to 2", (1, 32, 128, 128), (2, 32, 1, 1))
    conv("Conv 7x7 2 to 1", (1, 2, 112, 112), (1, 2, 7, 7), pads=[3] * 4)
    conv("ConvTranspose 9x9 s2, 56 to 1", (1, 56, 120, 120), (56, 1, 9, 9), op="ConvTranspose", pads=[4] * 4, strides=[2, 2], output_padding=[1, 1])
    conv("ConvTranspose 4x4 s2, 64 to 3", (1, 64, 64, 64), (64, 3, 4, 4), op="ConvTranspose", pads=[1] * 4, strides=[2, 2])
    conv("Conv 7x7, 16 channels", (1, 3, 256, 256), (16, 3, 7, 7), "f32", pads=[3] * 4)
    conv("Conv patches of 16", (1, 3, 224, 224), (192, 3, 16, 16), "f32", strides=[16, 16])
    conv("Conv 1x1 2048 to 512, 7x7", (1, 2048, 7, 7), (512, 2048, 1, 1), "f32")
    conv("Conv 1x1 64 to 256", (1, 64, 56, 56), (256, 64, 1, 1), "f32")
    conv("Conv 1x1 1024 to 256, 14x14", (1, 1024, 14, 14), (256, 1024, 1, 1), "f32")
    conv("Conv 1x1 512 to 2048, 7x7", (1, 512, 7, 7), (2048, 512, 1, 1), "f32")
    conv("Conv 1x1 s2 256 to 512", (1, 256, 56, 56), (512, 256, 1, 1), "f32", strides=[2, 2])
    conv("Conv 3x3 s2 128 to 128", (1, 128, 56, 56), (128, 128, 3, 3), "f32", strides=[2, 2], **same)
    conv("Conv 3x3 256 to 256, 7x7", (1, 256, 7, 7), (256, 256, 3, 3), "f32", **same)
    conv("Conv 3x3 512 to 512, 7x7", (1, 512, 7, 7), (512, 512, 3, 3), "f32", **same)
    conv("Conv 1x1 8 groups of 30", (1, 240, 28, 28), (240, 30, 1, 1), "f32", group=8)
    conv("Conv 3x3 8 groups of 30", (1, 240, 28, 28), (240, 30, 3, 3), "f32", group=8, **same)
    conv("Conv 7x1", (1, 128, 17, 17), (192, 128, 7, 1), "f32", pads=[3, 0, 3, 0])
    conv("Conv 1x7", (1, 128, 17, 17), (192, 128, 1, 7), "f32", pads=[0, 3, 0, 3])
    conv("Conv 3x1 384 to 384, 8x8", (1, 384, 8, 8), (384, 384, 3, 1), "f32", pads=[1, 0, 1, 0])
    conv("Conv 3x3 448 to 384, 8x8", (1, 448, 8, 8), (384, 448, 3, 3), "f32", **same)
    conv("Conv 3x3 256 to 256, 10x10", (1, 256, 10, 10), (256, 256, 3, 3), "f32", **same)
    conv("Conv 3x3 128 to 32, 14x14", (1, 128, 14, 14), (32, 128, 3, 3), "f32", **same)
    conv("Conv 3x3 512 to 512, 14x14", (1, 512, 14, 14), (512, 512, 3, 3), "f32", **same)
    conv("Conv 3x3 s2 512 to 512, 14x14", (1, 512, 14, 14), (512, 512, 3, 3), "f32", strides=[2, 2], **same)
    conv("Conv 1x1 s2 1024 to 2048, 14x14", (1, 1024, 14, 14), (2048, 1024, 1, 1), "f32", strides=[2, 2])
    conv("Conv 1x1 1152 to 192, 7x7", (1, 1152, 7, 7), (192, 1152, 1, 1), "f32")
    conv("Conv 3x3 s2 stem to 32", (1, 3, 224, 224), (32, 3, 3, 3), "f32", strides=[2, 2], **same)
    conv("Conv depthwise 5x5, 7x7 maps", (1, 1152, 7, 7), (1152, 1, 5, 5), "f32", group=1152, pads=[2] * 4)
    conv("Conv depthwise 3x3, 14x14 maps", (1, 576, 14, 14), (576, 1, 3, 3), "f32", group=576, **same)
    conv("Conv depthwise 3x3, 7x7 maps", (1, 960, 7, 7), (960, 1, 3, 3), "f32", group=960, **same)
    conv("ConvTranspose 4x4 s2", (1, 64, 28, 28), (64, 32, 4, 4), op="ConvTranspose", pads=[1] * 4, strides=[2, 2])
    conv("ConvTranspose 1-D k16 s8", (1, 64, 200), (64, 32, 16), op="ConvTranspose", pads=[4, 4], strides=[8])
    conv("Conv depthwise 3x3, two outputs", (1, 32, 56, 56), (64, 1, 3, 3), group=32, **same)
    conv("Conv 3-D depthwise", (1, 32, 16, 32, 32), (32, 1, 3, 3, 3), group=32, pads=[1] * 6)
    conv("ConvTranspose depthwise 4x4 s2", (1, 32, 56, 56), (32, 1, 4, 4), op="ConvTranspose", group=32, pads=[1] * 4,
         strides=[2, 2])
    add("conv", "Conv 3x3, weights at run time", "Conv", [t(1, 64, 56, 56), t(64, 64, 3, 3)], **same)
    add("conv", "Conv 3x3 512 to 512, 14x14, weights at run time", "Conv", [t(1, 512, 14, 14), t(512, 512, 3, 3)], "f32", **same)
    add("conv", "ConvTranspose 4x4 s2, weights at run time", "ConvTranspose", [t(1, 64, 28, 28), t(64, 32, 4, 4)], "f32 f16", pads=[1] * 4, strides=[2, 2])
    add("conv", "ConvTranspose depthwise, weights at run time", "ConvTranspose", [t(1, 32, 56, 56), t(32, 1, 4, 4)], "f32", group=32, pads=[1] * 4, strides=[2, 2])
    add("conv", "DeformConv 3x3", "DeformConv", [t(1, 32, 28, 28), weight(32, 32, 3, 3), t(1, 18, 28, 28)], model=19, **same)

    def bytes_conv(name, x, w, x_type="u8", **more):
        add("conv int8", name, "QLinearConv",
            [t(*x), scalar(0.02), scalar(128 if x_type == "u8" else 0, x_type), weight(*w, type="i8", low=-127, high=127),
             scalar(0.005), scalar(0, "i8"), scalar(0.05), scalar(128 if x_type == "u8" else 0, x_type)], x_type, **more)

    bytes_conv("QLinearConv 3x3 64 to 64", (1, 64, 56, 56), (64, 64, 3, 3), **same)
    bytes_conv("QLinearConv 1x1 256 to 64", (1, 256, 56, 56), (64, 256, 1, 1))
    bytes_conv("QLinearConv 1x1 256 to 64", (1, 256, 56, 56), (64, 256, 1, 1), "i8")
    bytes_conv("QLinearConv stem 7x7 s2", (1, 3, 224, 224), (64, 3, 7, 7), pads=[3] * 4, strides=[2, 2])
    bytes_conv("QLinearConv depthwise 3x3", (1, 144, 56, 56), (144, 1, 3, 3), group=144, **same)
    bytes_conv("QLinearConv depthwise 3x3", (1, 144, 56, 56), (144, 1, 3, 3), "i8", group=144, **same)
    bytes_conv("QLinearConv depthwise 3x3 of 7x7", (1, 576, 7, 7), (576, 1, 3, 3), group=576, **same)
    bytes_conv("QLinearConv depthwise 5x5 s2", (1, 96, 56, 56), (96, 1, 5, 5), group=96, pads=[2] * 4, strides=[2, 2])
    bytes_conv("QLinearConv 8 groups", (1, 128, 28, 28), (128, 16, 3, 3), group=8, **same)
    add("conv int8", "ConvInteger 3x3", "ConvInteger",
        [t(1, 64, 56, 56), weight(64, 64, 3, 3, type="u8", low=0, high=255), scalar(128, "u8"), scalar(120, "u8")], "u8", **same)


def pools():
    def pool(name, op, x, types="f32 f16", **more):
        add("pool", name, op, [t(*x)], types, **more)

    three = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    pool("MaxPool 3x3 s2", "MaxPool", (1, 64, 112, 112), "f32 f16 u8 i8", **three)
    pool("MaxPool 2x2, 3 channels", "MaxPool", (1, 3, 512, 512), "f32 u8", kernel_shape=[2, 2], strides=[2, 2])
    pool("MaxPool 5x5 s1", "MaxPool", (1, 128, 20, 20), kernel_shape=[5, 5], pads=[2] * 4)
    for size, kernel in ((7, 3), (14, 3), (14, 5), (56, 3), (20, 7), (20, 9), (20, 13)):
        pool(f"MaxPool {kernel}x{kernel} s1 of {size}x{size}", "MaxPool", (1, 256, size, size), "f32", kernel_shape=[kernel] * 2,
             pads=[kernel // 2] * 4)
    for size, kernel in ((7, 3), (14, 3), (14, 5), (20, 7)):
        pool(f"AveragePool {kernel}x{kernel} s1 of {size}x{size}", "AveragePool", (1, 256, size, size), "f32",
             kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)
    for size, kernel in ((7, 2), (7, 3), (14, 2), (14, 3)):
        for op in ("MaxPool", "AveragePool"):
            pool(f"{op} {kernel}x{kernel} s2 of {size}x{size}", op, (1, 256, size, size), "f32", kernel_shape=[kernel] * 2,
                 strides=[2, 2], pads=[kernel // 2 if kernel % 2 else 0] * 4)
    for size, kernel, stride in ((16, 2, 1), (16, 2, 2), (18, 4, 1), (20, 2, 2), (20, 3, 1), (20, 3, 3), (28, 3, 2)):
        for op in ("MaxPool", "AveragePool"):
            pool(f"{op} {kernel}x{kernel} s{stride} of {size}x{size}", op, (1, 256, size, size), "f32",
                 kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2 if kernel % 2 else 0] * 4)
    pool("MaxPool 7x7 of 7x7", "MaxPool", (1, 256, 7, 7), "f32", kernel_shape=[7, 7])
    pool("MaxPool 3-D", "MaxPool", (1, 16, 16, 56, 56), kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    pool("MaxPool 3-D 3x3x3 s1", "MaxPool", (1, 8, 16, 28, 28), "f32", kernel_shape=[3, 3, 3], pads=[1] * 6)
    pool("MaxPool 1-D", "MaxPool", (1, 128, 4000), kernel_shape=[4], strides=[4])
    pool("MaxPool 1-D k3 s1", "MaxPool", (1, 128, 2000), "f32", kernel_shape=[3], pads=[1, 1])
    pool("MaxPool with indices", "MaxPool", (1, 64, 112, 112), "f32", outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    pool("AveragePool 3x3 s1", "AveragePool", (1, 64, 56, 56), kernel_shape=[3, 3], pads=[1] * 4)
    pool("AveragePool 2x2 s2, 3 channels", "AveragePool", (1, 3, 512, 512), kernel_shape=[2, 2], strides=[2, 2])
    pool("AveragePool 3-D", "AveragePool", (1, 16, 16, 56, 56), kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    pool("AveragePool 1-D", "AveragePool", (1, 128, 4000), kernel_shape=[4], strides=[4])
    pool("LpPool 3x3", "LpPool", (1, 64, 56, 56), "f32", kernel_shape=[3, 3], pads=[1] * 4, p=2)
    pool("LpPool 1-D", "LpPool", (1, 128, 2000), "f32", kernel_shape=[3], p=2)
    pool("GlobalAveragePool", "GlobalAveragePool", (1, 512, 28, 28))
    pool("GlobalMaxPool", "GlobalMaxPool", (1, 512, 28, 28))
    pool("GlobalLpPool", "GlobalLpPool", (1, 512, 28, 28), "f32")
    add("pool", "MaxUnpool 2x2", "MaxUnpool", [t(1, 64, 56, 56), integers(64 * 112 * 112, 1, 64, 56, 56)],
        kernel_shape=[2, 2], strides=[2, 2])
    step = [scalar(0.05), scalar(120, "u8"), scalar(0.04), scalar(125, "u8")]
    add("pool int8", "QLinearAveragePool 3x3", "QLinearAveragePool", [t(1, 64, 56, 56), *step], "u8", domain="com.microsoft",
        kernel_shape=[3, 3], pads=[1] * 4)
    add("pool int8", "QLinearGlobalAveragePool", "QLinearGlobalAveragePool", [t(1, 512, 28, 28), *step], "u8",
        domain="com.microsoft")


def products():
    add("product", "MatMul 128x768x768", "MatMul", [t(128, 768), weight(768, 768)], "f32 f16 bf16 f64")
    add("product", "MatMul 128x768x768, both fed", "MatMul", [t(128, 768), t(768, 768)], "f32 f16")
    add("product", "MatMul 1x1024x4096", "MatMul", [t(1, 1024), weight(1024, 4096)], "f32 f16")
    add("product", "MatMul 1x1024x1024, both fed", "MatMul", [t(1, 1024), t(1024, 1024)])
    add("product", "MatMul 12 of 128x64x128", "MatMul", [t(12, 128, 64), t(12, 64, 128)], "f32 f16")
    add("product", "MatMul 64 of 49x32x49", "MatMul", [t(64, 3, 49, 32), t(64, 3, 32, 49)])
    add("product", "MatMul 64 of 49x49x32", "MatMul", [t(64, 3, 49, 49), t(64, 3, 49, 32)])
    add("product", "MatMul 1000x2x64", "MatMul", [t(1000, 2), weight(2, 64)])
    add("product", "MatMul outer", "MatMul", [t(8, 64, 1), t(8, 1, 512)])
    add("product", "MatMul 100x4x4", "MatMul", [t(100, 16, 4), t(100, 4, 4)])
    add("product", "MatMul 3x3 of points", "MatMul", [t(20000, 3), weight(3, 3)])
    add("product", "MatMul by a column", "MatMul", [t(1000, 1000), t(1000, 1)], "f32 f64 i32")
    add("product", "MatMul i32 128x256x256", "MatMul", [t(128, 256), t(256, 256)], "i32")
    add("product", "Gemm 64x1024x1024 transB", "Gemm", [t(64, 1024), weight(1024, 1024), t(1024)], "f32 f16", transB=1)
    step = scalar(0.02)
    add("product int8", "MatMulInteger 128x768x768", "MatMulInteger",
        [t(128, 768), weight(768, 768, type="i8", low=-127, high=127), scalar(128, "u8")], "u8")
    add("product int8", "MatMulInteger 1x1024x1024", "MatMulInteger",
        [t(1, 1024), weight(1024, 1024, type="i8", low=-127, high=127), scalar(128, "u8")], "u8")
    add("product int8", "MatMulInteger 5000x16x16", "MatMulInteger",
        [t(5000, 16), weight(16, 16, type="i8", low=-127, high=127), scalar(128, "u8")], "u8")
    add("product int8", "MatMulInteger, both fed", "MatMulInteger", [t(128, 768), t(768, 256), scalar(128, "u8"), scalar(100, "u8")], "u8")
    add("product int8", "QLinearMatMul 128x768x768", "QLinearMatMul",
        [t(128, 768), step, scalar(128, "u8"), weight(768, 768, type="i8", low=-127, high=127), step, scalar(0, "i8"),
         scalar(0.5), scalar(128, "u8")], "u8")
    add("product int8", "DynamicQuantizeMatMul 128x768x768", "DynamicQuantizeMatMul",
        [t(128, 768), weight(768, 768, type="i8", low=-127, high=127), weight(1, type="f32", low=0.01, high=0.02)],
        domain="com.microsoft")
    packed = weight(768, 24, 16, type="u8", low=0, high=255)
    for name, rows in (("MatMulNBits 1x768x768", 1), ("MatMulNBits 64x768x768", 64)):
        add("product int4", name, "MatMulNBits", [t(rows, 768), packed, weight(768 * 24)], domain="com.microsoft", K=768, N=768,
            bits=4, block_size=32)
    add("product", "FusedMatMul transB", "FusedMatMul", [t(8, 128, 64), t(8, 128, 64)], domain="com.microsoft", transB=1, alpha=0.125)
    add("einsum", "Einsum bij,bjk->bik", "Einsum", [t(8, 128, 64), t(8, 64, 128)], "f32 f16", equation="bij,bjk->bik")
    add("einsum", "Einsum bihd,bjhd->bhij", "Einsum", [t(2, 128, 8, 64), t(2, 128, 8, 64)], equation="bihd,bjhd->bhij")
    add("einsum", "Einsum bhij,bjhd->bihd", "Einsum", [t(2, 8, 128, 128), t(2, 128, 8, 64)], equation="bhij,bjhd->bihd")
    add("einsum", "Einsum bi,bj->bij", "Einsum", [t(32, 128), t(32, 128)], equation="bi,bj->bij")
    add("einsum", "Einsum bi,bi->b", "Einsum", [t(512, 512), t(512, 512)], equation="bi,bi->b")
    add("einsum", "Einsum ij->ji", "Einsum", [t(512, 512)], equation="ij->ji")
    add("einsum", "Einsum bchw,cd->bdhw", "Einsum", [t(1, 64, 56, 56), t(64, 64)], equation="bchw,cd->bdhw")
    add("product", "Det 64 of 16x16", "Det", [t(64, 16, 16)])


def norms():
    add("norm", "LayerNormalization 512x768", "LayerNormalization", [t(512, 768), weight(768), weight(768)], "f32 f16 bf16")
    add("norm", "RMSNormalization 512x768", "RMSNormalization", [t(512, 768), weight(768)], "f32 f16", model=23)
    add("norm", "SkipLayerNormalization", "SkipLayerNormalization", [t(1, 512, 768), t(1, 512, 768), weight(768), weight(768)],
        "f32 f16", domain="com.microsoft")
    add("norm", "SimplifiedLayerNormalization", "SimplifiedLayerNormalization", [t(512, 768), weight(768)], model=21)
    statistics = [weight(64, low=0.5, high=1.5), weight(64), weight(64), weight(64, low=0.5, high=1.5)]
    add("norm", "BatchNormalization", "BatchNormalization", [t(1, 64, 112, 112), *statistics], "f32 f16")
    add("norm", "InstanceNormalization", "InstanceNormalization", [t(1, 64, 56, 56), weight(64), weight(64)], "f32 f16")
    add("norm", "BatchNormalization of 3 channels", "BatchNormalization", [t(20000, 3), *(weight(3, low=0.5, high=2) for _ in range(4))])
    add("norm", "InstanceNormalization rows of 16", "InstanceNormalization", [t(8, 512, 16), weight(512), weight(512)])
    add("norm", "InstanceNormalization rows of 49", "InstanceNormalization", [t(1, 1024, 7, 7), weight(1024), weight(1024)])
    add("norm", "GroupNormalization 32, 4x4", "GroupNormalization", [t(1, 512, 4, 4), weight(512), weight(512)], model=21,
        num_groups=32)
    add("norm", "LayerNormalization rows of 32", "LayerNormalization", [t(4096, 32), weight(32), weight(32)])
    add("norm", "GroupNormalization 32", "GroupNormalization", [t(1, 256, 28, 28), weight(256), weight(256)], "f32 f16",
        num_groups=32)
    add("norm", "GroupNormalization 1", "GroupNormalization", [t(1, 256, 28, 28), weight(256), weight(256)], num_groups=1)
    add("norm", "LayerNormalization of one row", "LayerNormalization", [t(1, 200000), weight(200000), weight(200000)])
    add("norm", "LRN 5", "LRN", [t(1, 64, 56, 56)], "f32 f16", size=5)
    add("norm", "LpNormalization rows", "LpNormalization", [t(512, 512)], "f32 f16", axis=-1, p=2)
    add("norm", "LpNormalization channels", "LpNormalization", [t(1, 64, 64, 64)], axis=1, p=2)
    add("norm", "LpNormalization L1", "LpNormalization", [t(512, 512)], axis=-1, p=1)
    add("norm", "MeanVarianceNormalization", "MeanVarianceNormalization", [t(1, 64, 56, 56)], "f32 f16", axes=[0, 2, 3])
    add("norm", "MeanVarianceNormalization rows", "MeanVarianceNormalization", [t(512, 512)], axes=[1])
    add("norm", "MeanVarianceNormalization rows of 16", "MeanVarianceNormalization", [t(8192, 16)], axes=[1])
    add("softmax", "Softmax rows of 512", "Softmax", [t(512, 512)], "f32 f16 bf16 f64", axis=-1)
    add("softmax", "Softmax rows of 30000", "Softmax", [t(8, 30000)], "f32 f16", axis=-1)
    add("softmax", "Softmax of one row", "Softmax", [t(1, 200000)], "f32 f16", axis=-1)
    add("softmax", "Softmax rows of 4", "Softmax", [t(20000, 4)], "f32 f16", axis=-1)
    add("softmax", "LogSoftmax rows of 10", "LogSoftmax", [t(20000, 10)], "f32 f16", axis=-1)
    add("softmax", "Softmax channels", "Softmax", [t(1, 64, 64, 64)], "f32 f16", axis=1)
    add("softmax", "LogSoftmax rows of 512", "LogSoftmax", [t(512, 512)], "f32 f16", axis=-1)
    add("softmax", "Hardmax rows of 512", "Hardmax", [t(512, 512)], "f32 f16", axis=-1)
    add("softmax", "Hardmax channels", "Hardmax", [t(1, 64, 64, 64)], axis=1)


def unary():
    positive, unit, above = {"low": 0.01, "high": 4}, {"low": -0.99, "high": 0.99}, {"low": 1.01, "high": 8}
    small = {"low": -1.4, "high": 1.4}
    ranges = {"Log": positive, "Sqrt": positive, "Asin": unit, "Acos": unit, "Atanh": unit, "Acosh": above, "Tan": small,
              "Reciprocal": positive}
    for op in ("Abs Neg Ceil Floor Round Sign Sqrt Reciprocal Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh "
               "Atanh Erf").split():
        add("unary math", op, op, [t(256, 1024, **ranges.get(op, {}))],
            "f32 f16" if op in ("Exp", "Sqrt", "Abs", "Tanh", "Sin", "Asin") else "f32")
    for op in ("Abs", "Neg", "Sign"):
        add("unary math", op, op, [t(256, 1024)], "i64 i32" if op != "Sign" else "i64")
    for op in ("Abs", "Neg", "Sign"):
        add("unary math", op, op, [t(256, 1024)], "i8 i16 f64" if op != "Sign" else "i8 u8 f64")
    add("unary math", "Sqrt", "Sqrt", [t(256, 1024, **positive)], "f64")
    add("unary math", "Exp", "Exp", [t(256, 1024)], "f64")
    for op in ("Sin", "Cos", "Tanh", "Log"):
        add("unary math", op, op, [t(256, 1024, **ranges.get(op, {}))], "f64")
    for op in ("Sigmoid Relu LeakyRelu Elu Selu Celu HardSigmoid HardSwish Softplus Softsign Mish Gelu ThresholdedRelu "
               "Shrink").split():
        opset = {"Swish": 24}.get(op)
        add("activation", op, op, [t(256, 1024)], "f32 f16" if op in ("Sigmoid", "Relu", "Gelu", "LeakyRelu", "HardSwish") else "f32",
            model=opset)
    add("activation", "Sigmoid", "Sigmoid", [t(256, 1024)], "f64")
    add("activation", "Gelu tanh", "Gelu", [t(256, 1024)], approximate="tanh")
    add("activation", "Clip", "Clip", [t(256, 1024), scalar(-1.0), scalar(1.0)])
    add("activation", "Clip", "Clip", [t(256, 1024), scalar(-10, "i64"), scalar(10, "i64")], "i64")
    add("activation", "BiasGelu", "BiasGelu", [t(256, 1024), weight(1024)], domain="com.microsoft")
    add("activation", "FastGelu", "FastGelu", [t(256, 1024), weight(1024)], domain="com.microsoft")
    add("activation", "QuickGelu", "QuickGelu", [t(256, 1024)], domain="com.microsoft")
    for op in ("IsNaN", "IsInf"):
        add("logic", op, op, [t(256, 1024)], "f32 f16 bf16 f64", model=20)
    add("logic", "IsInf above", "IsInf", [t(256, 1024)], "f32 f16 f64", model=20, detect_negative=0)
    add("logic", "Not", "Not", [t(1024, 1024)], "bool")
    add("logic", "BitwiseNot", "BitwiseNot", [t(1024, 1024)], "u8 i32")


def binary():
    whole = (256, 1024)
    for op in ("Add", "Sub", "Mul", "Div"):
        add("binary", op, op, [t(*whole), t(*whole, low=1, high=5)], "f32 f16 bf16 i64 i32" if op in ("Add", "Mul") else "f32 i64")
    add("binary", "Add row", "Add", [t(*whole), t(1024)], "f32 f16 i64")
    add("binary", "Add column", "Add", [t(*whole), t(256, 1)], "f32 f16 i64")
    add("binary", "Mul channels", "Mul", [t(1, 64, 56, 56), t(1, 64, 1, 1)], "f32 f16")
    add("binary", "Mul pixels", "Mul", [t(8, 64, 64, 3), t(3)], "f32 f16")
    add("binary", "Add rows of 3", "Add", [t(64000, 3), t(3)], "i64 f64")
    add("binary", "Div rows of 4 by a number each", "Div", [t(64000, 4), t(64000, 1, low=1, high=5)], "f32 i64")
    add("binary", "Mul scalar", "Mul", [t(*whole), t(1)], "f32 f16 i64")
    add("binary", "Add outer", "Add", [t(512, 1), t(1, 512)], "f32 i64")
    add("binary", "Add middle", "Add", [t(32, 16, 512), t(32, 1, 512)])
    add("binary", "Add", "Add", [t(*whole), t(*whole)], "f64 u8")
    for op in ("Div", "Max", "Min"):
        add("binary", op, op, [t(*whole), t(*whole, low=1, high=5)], "f64")
        add("binary", f"{op} row", op, [t(*whole), t(1024, low=1, high=5)], "f64")
    add("binary", "Pow 2", "Pow", [t(*whole), scalar(2.0)])
    add("binary", "Pow 2", "Pow", [t(*whole), scalar(2.0, "f64")], "f64")
    add("binary", "Pow 0.5", "Pow", [t(*whole, low=0.01, high=4), scalar(0.5)])
    add("binary", "Pow 2.4", "Pow", [t(*whole, low=0.01, high=4), scalar(2.4)])
    add("binary", "Pow tensors", "Pow", [t(*whole, low=0.01, high=4), t(*whole)])
    add("binary", "Pow i64", "Pow", [t(*whole, low=0, high=9), scalar(2, "i64")], "i64")
    add("binary", "Mod", "Mod", [t(*whole), integers(17, *whole, low=1)], "i64")
    add("binary", "Mod i32", "Mod", [t(*whole), integers(17, *whole, low=1, type="i32")], "i32")
    add("binary", "Mod fmod", "Mod", [t(*whole), t(*whole, low=1, high=3)], "f32", fmod=1)
    add("binary", "PRelu", "PRelu", [t(1, 64, 56, 56), weight(64, 1, 1)], "f32 f16")
    for op in ("Max", "Min"):
        add("binary", op, op, [t(*whole), t(*whole)], "f32 f16 i64" if op == "Max" else "f32")
    for op in ("Max", "Sum", "Mean"):
        add("binary", f"{op} of three", op, [t(*whole), t(*whole), t(*whole)])
    for op in ("Equal", "Less", "Greater", "GreaterOrEqual"):
        add("compare", op, op, [t(*whole), t(*whole)], "f32 i64 i32" if op != "GreaterOrEqual" else "f32 f16")
    add("compare", "Equal scalar", "Equal", [t(*whole), scalar(3, "i64")], "i64")
    add("compare", "Less rows of 3", "Less", [t(64000, 3), t(3)], "f32 i64")
    add("compare", "Greater rows of 64 and a number each", "Greater", [t(64, 64, 64), t(64, 64, 1)], "f32")
    add("compare", "Less row column", "Less", [t(512, 1), t(1, 512)], "i64 f32")
    for op in ("And", "Or", "Xor"):
        add("logic", op, op, [t(1024, 1024), t(1024, 1024)], "bool")
    add("logic", "And row", "And", [t(1024, 1024), t(1, 1024)], "bool")
    add("logic", "BitwiseAnd", "BitwiseAnd", [t(*whole), t(*whole)], "i32 u8")
    add("logic", "BitShift", "BitShift", [t(*whole), t(*whole, low=0, high=7)], "u8", direction="LEFT")
    add("where", "Where", "Where", [t(*whole, type="bool"), t(*whole), t(*whole)], "f32 f16 i64 u8")
    add("where", "Where scalar", "Where", [t(1, 1, 512, 512, type="bool"), t(1), t(1, 1, 512, 512)], "f32 f16 i64")
    add("where", "Where rows of 3", "Where", [t(64000, 1, type="bool"), t(64000, 3), t(3)], "f32 i64")
    add("where", "Where row mask", "Where", [t(1, 1, 1, 128, type="bool"), t(1, 12, 128, 128), t(1)], "f32")


def reductions():
    def reduce(name, op, x, axes, types="f32", **more):
        add("reduce", name, op, [t(*x, **more), fixed(*axes)], types)

    for op in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"):
        more = {"low": 0.9, "high": 1.1} if op in ("Prod", "LogSum") else {}
        types = {"Sum": "f32 f16 f64 i64 i32", "Max": "f32 f16 i64 i32 u8", "Mean": "f32 f16 i64"}.get(op, "f32")
        reduce(f"Reduce{op} rows of 512", f"Reduce{op}", (512, 512), (1,), types, **more)
        reduce(f"Reduce{op} axis 0", f"Reduce{op}", (512, 512), (0,), types, **more)
    for n in (3, 20):
        reduce(f"ReduceMax rows of {n}", "ReduceMax", (20000, n), (1,), "f32 f16 f64 i64 i32 u8")
        reduce(f"ReduceSum rows of {n}", "ReduceSum", (20000, n), (1,), "f32 f64 i64 i32")
    reduce("ReduceMean rows of 8", "ReduceMean", (20000, 8), (1,), "f32 i64")
    reduce("ReduceProd rows of 8", "ReduceProd", (20000, 8), (1,), "i32")
    reduce("ReduceSum pairs of columns", "ReduceSum", (100, 500, 2), (1,), "f32 f16 f64 i64 i32")
    reduce("ReduceMean image, 3 channels last", "ReduceMean", (1, 224, 224, 3), (1, 2), "f32")
    reduce("ReduceMin axis 0", "ReduceMin", (512, 512), (0,), "i64 i32")
    for op in ("Sum", "Max", "Mean"):
        reduce(f"Reduce{op} middle", f"Reduce{op}", (16, 128, 128), (1,), "f32 f16 i64")
        reduce(f"Reduce{op} all", f"Reduce{op}", (512, 512), (0, 1), "f32 f16 i64" if op != "Mean" else "f32")
    reduce("ReduceSum of one row", "ReduceSum", (1, 200000), (1,), "f32 f16 f64 i64")
    reduce("ReduceSum of long columns", "ReduceSum", (50000, 8), (0,), "f32 f64 i64")
    reduce("ReduceMean images", "ReduceMean", (1, 256, 32, 32), (2, 3), "f32 f16")
    reduce("ReduceSum outer axes", "ReduceSum", (16, 128, 128), (0, 2), "f32 f16")
    reduce("ReduceL2 axis 0", "ReduceL2", (512, 512), (0,), "f16")
    for op in ("ArgMax", "ArgMin"):
        add("arg", f"{op} rows of 512", op, [t(512, 512)], "f32 f16 i32 u8" if op == "ArgMax" else "f32", axis=1)
        add("arg", f"{op} axis 0", op, [t(512, 512)], "f32 i32" if op == "ArgMax" else "f32", axis=0)
    add("arg", "ArgMax axis 0", "ArgMax", [t(512, 512)], "f16 f64 i64 u8", axis=0)
    add("arg", "ArgMin last of axis 0", "ArgMin", [t(512, 512)], "f32 i32", axis=0, select_last_index=1)
    add("arg", "ArgMax rows of 20", "ArgMax", [t(20000, 20)], "f32 f16 i64", axis=1)
    add("arg", "ArgMax rows of 30000", "ArgMax", [t(8, 30000)], "f32", axis=1)
    add("arg", "ArgMax rows of 77", "ArgMax", [t(1000, 77)], "f32 f64", axis=1)
    add("arg", "ArgMax of one row", "ArgMax", [t(1, 200000)], "f32 f16", axis=1)
    add("arg", "ArgMax rows of 10", "ArgMax", [t(2000, 10)], "f32 u8", axis=1)
    add("arg", "ArgMax rows of 40", "ArgMax", [t(2000, 40)], "f32 f16 i64 u8", axis=1)
    add("arg", "ArgMax rows of 80", "ArgMax", [t(2000, 80)], "f32 f16 u8", axis=1)
    add("arg", "ArgMax rows of 1000", "ArgMax", [t(128, 1000)], "f32 f16 i8", axis=1)
    add("arg", "ArgMin last of rows of 512", "ArgMin", [t(512, 512)], "f32 u8", axis=1, select_last_index=1)
    add("arg", "ArgMax of 32000", "ArgMax", [t(4, 32000)], "f32 f16 u8", axis=1)
    add("arg", "ArgMax channels", "ArgMax", [t(1, 21, 128, 128)], "f32", axis=1)
    add("scan", "CumSum rows", "CumSum", [t(512, 512), scalar(1, "i64")], "f32 i64 i32")
    add("scan", "CumSum axis 0", "CumSum", [t(512, 512), scalar(0, "i64")], "f32 i64 i32")
    add("scan", "CumSum pairs of columns", "CumSum", [t(100, 500, 2), scalar(1, "i64")], "f32 i64 i32")
    add("scan", "CumSum rows of 16", "CumSum", [t(8192, 16), scalar(1, "i64")], "f32 i64")
    add("scan", "CumSum of one row", "CumSum", [t(1, 200000), scalar(1, "i64")], "f32 f64 i32 i64")
    add("scan", "CumSum of one row, reverse", "CumSum", [t(1, 200000), scalar(1, "i64")], "f32", reverse=1, exclusive=1)
    add("scan", "CumSum of one row of 1000", "CumSum", [t(1, 1000), scalar(1, "i64")], "f32 i64")
    add("scan", "CumSum axis 0 of 9 columns", "CumSum", [t(4000, 9), scalar(0, "i64")], "f32")
    add("scan", "CumSum axis 0 of 20 columns", "CumSum", [t(4000, 20), scalar(0, "i64")], "f32")
    add("scan", "CumSum axis 0 of 50 columns", "CumSum", [t(4000, 50), scalar(0, "i64")], "f32")
    add("scan", "CumSum axis 0 of 100 columns", "CumSum", [t(2000, 100), scalar(0, "i64")], "f32 f64")
    add("scan", "CumSum f64", "CumSum", [t(512, 512), scalar(1, "i64")], "f64")
    add("scan", "CumSum middle, reverse", "CumSum", [t(16, 128, 128), scalar(1, "i64")], "f32", reverse=1, exclusive=1)


def order():
    k = fixed
    add("order", "TopK 10 of rows of 1000", "TopK", [t(128, 1000), k(10)], "f32 i64 f16", outputs=2)
    add("order", "TopK 1 of rows of 1000", "TopK", [t(128, 1000), k(1)], "f32 f16 f64 i64", outputs=2)
    add("order", "TopK 300 of 8400", "TopK", [t(4, 8400), k(300)], "f32 i64", outputs=2)
    add("order", "TopK 50 of one row", "TopK", [t(1, 150000), k(50)], "f32 f16 i64", outputs=2)
    add("order", "TopK 50 of one long row", "TopK", [t(1, 1000000), k(50)], "f32", outputs=2)
    add("order", "TopK 1000 of one row", "TopK", [t(1, 120000), k(1000)], "f32 f64", outputs=2)
    add("order", "TopK all of 4096", "TopK", [t(4, 4096), k(4096)], "f32 i64", outputs=2)
    add("order", "TopK 2 of rows of 8", "TopK", [t(4096, 8), k(2)], "f32 i64", outputs=2)
    add("order", "TopK 3 of rows of 20", "TopK", [t(4096, 20), k(3)], "f32 f16 i64", outputs=2)
    add("order", "TopK 8 of rows of 256", "TopK", [t(256, 256), k(8)], "f32 f16", outputs=2)
    add("order", "TopK 100 of rows of 300", "TopK", [t(64, 300), k(100)], "f32 i64", outputs=2)
    add("order", "TopK 1 of rows of 80", "TopK", [t(2000, 80), k(1)], "f32 f16", outputs=2)
    add("order", "TopK 1 of 32000", "TopK", [t(4, 32000), k(1)], "f32 f16", outputs=2)
    add("order", "TopK 1 of one row, smallest", "TopK", [t(1, 100000), k(1)], "f32 f16 i32", outputs=2, largest=0)
    add("order", "TopK 100 of one row, smallest", "TopK", [t(1, 25200), k(100)], "f32 f64 i32", outputs=2, largest=0)
    add("order", "TopK 100 of one row, unsorted", "TopK", [t(1, 25200), k(100)], "f32", outputs=2, sorted=0)
    add("order", "TopK 20 of rows of 100", "TopK", [t(512, 100), k(20)], "f32 i64", outputs=2)
    add("order", "TopK 6 of rows of 64", "TopK", [t(512, 64), k(6)], "f32", outputs=2)
    add("order", "TopK 40 of 32000", "TopK", [t(4, 32000), k(40)], "f32 f16 f64", outputs=2)
    add("order", "TopK all of 500", "TopK", [t(32, 500), k(500)], "f32 f64 i32", outputs=2)
    add("order", "TopK 50 of rows of 64", "TopK", [t(256, 64), k(50)], "f32 i64", outputs=2)
    add("order", "TopK 100 axis 0", "TopK", [t(1000, 64), k(100)], "f32", outputs=2, axis=0)
    add("order", "TopK 20000 of one row", "TopK", [t(1, 100000), k(20000)], "f32 i64", outputs=2)
    add("order", "TopK 5 axis 0", "TopK", [t(256, 256), k(5)], "f32 f16 f64 i64", outputs=2, axis=0)
    add("order", "TopK 5 axis 0, smallest", "TopK", [t(256, 256), k(5)], "f32", outputs=2, axis=0, largest=0)
    add("order", "TopK 20 axis 0", "TopK", [t(256, 256), k(20)], "f32", outputs=2, axis=0)
    add("order", "TopK 1 axis 0", "TopK", [t(256, 256), k(1)], "f32 i64", outputs=2, axis=0)
    add("order", "TopK 3 in the middle", "TopK", [t(8, 100, 80), k(3)], "f32 i64 i32", outputs=2, axis=1)
    add("order", "NonZero", "NonZero", [t(256, 1024, low=0, high=2)], "i64 bool")
    add("order", "NonZero of a volume", "NonZero", [t(16, 128, 512, low=0, high=2)], "i64 bool")
    add("order", "NonZero f32", "NonZero", [t(256, 1024)], "f32")
    add("order", "Unique", "Unique", [integers(1000, 20000)], "i64", outputs=4, sorted=1)
    add("order", "Compress short rows", "Compress", [t(20000, 4), t(20000, type="bool")], "f32 u8", axis=0)
    add("order", "Compress fewer rows", "Compress", [t(512, 128), t(512, type="bool")], "f32", axis=0)
    add("order", "Compress elements", "Compress", [t(65536), t(65536, type="bool")], "f32 i64")
    add("order", "Compress", "Compress", [t(2048, 128), t(2048, type="bool")], "f32", axis=0)
    add("order", "NonMaxSuppression", "NonMaxSuppression",
        [t(1, 2000, 4, low=0, high=100), t(1, 4, 2000, low=0, high=1), scalar(100, "i64"), scalar(0.5), scalar(0.3)])


def gathers():
    add("gather", "Gather rows of 256", "Gather", [t(5000, 256), integers(5000, 512)], "f32 f16 i64 i8", axis=0)
    add("gather", "Gather axis 1", "Gather", [t(256, 1024), integers(1024, 512)], "f32 i64", axis=1)
    add("gather", "Gather elements of a table", "Gather", [t(1000), integers(1000, 512, 256)], "f32 i64", axis=0)
    add("gather", "GatherElements axis 1", "GatherElements", [t(512, 512), integers(512, 512, 512)], "f32 i64", axis=1)
    add("gather", "GatherElements axis 0", "GatherElements", [t(512, 512), integers(512, 512, 512)], "f32 f16", axis=0)
    add("gather", "GatherND elements", "GatherND", [t(512, 512), integers(512, 65536, 2)], "f32 i64")
    add("gather", "GatherND rows", "GatherND", [t(64, 64, 64), integers(64, 2048, 2)], "f32 f16")
    indices = Tensor((), value=np.stack([np.random.default_rng(1).permutation(512) for _ in range(512)]))
    add("scatter", "ScatterElements axis 1", "ScatterElements", [t(512, 512), indices, t(512, 512)], "f32 i64", axis=1)
    add("scatter", "ScatterElements axis 0", "ScatterElements", [t(512, 512), Tensor((), value=indices.value.T.copy()), t(512, 512)],
        "f32 f16", axis=0)
    add("scatter", "ScatterElements few", "ScatterElements", [t(512, 512), integers(512, 512, 4), t(512, 4)], "f32 f16", axis=1)
    add("scatter", "ScatterElements add", "ScatterElements", [t(512, 512), integers(512, 512, 512), t(512, 512)], "f32 i64", axis=1,
        reduction="add")
    add("scatter", "ScatterElements add, graph edges", "ScatterElements",
        [t(2000, 64), Tensor((), value=np.repeat(np.random.default_rng(2).integers(0, 2000, (8000, 1)), 64, 1)), t(8000, 64)], axis=0,
        reduction="add")
    rows = Tensor((), value=np.random.default_rng(3).permutation(4096)[:1024, None])
    add("scatter", "ScatterND rows", "ScatterND", [t(4096, 128), rows, t(1024, 128)], "f32 f16 i64")
    add("scatter", "ScatterND add rows", "ScatterND", [t(4096, 128), integers(4096, 1024, 1), t(1024, 128)], "f32", reduction="add")
    cells = np.stack(np.divmod(np.random.default_rng(4).permutation(512 * 512)[:65536], 512), 1)
    add("scatter", "ScatterND elements", "ScatterND", [t(512, 512), Tensor((), value=cells), t(65536)], "f32")
    add("one-hot", "OneHot of 128", "OneHot", [integers(128, 4096), scalar(128, "i64"), Tensor((2,), constant=True, value=[0, 1], type="case")],
        "f32 i64")
    add("one-hot", "OneHot axis 1", "OneHot", [integers(32, 16, 1024), scalar(32, "i64"), Tensor((2,), constant=True, value=[0, 1], type="case")],
        "f32", axis=1)


def moves():
    add("slice", "Slice columns", "Slice", [t(512, 1024), fixed(100), fixed(700), fixed(1)], "f32 f16 i64 u8")
    add("slice", "Slice every second", "Slice", [t(512, 1024), fixed(0), fixed(1024), fixed(1), fixed(2)], "f32 f16")
    add("slice", "Slice reversed", "Slice", [t(512, 1024), fixed(-1), fixed(-2000), fixed(1), fixed(-1)], "f32")
    add("slice", "Slice rows, step 2", "Slice", [t(1, 16, 256, 256), fixed(0, 0), fixed(256, 256), fixed(2, 3), fixed(2, 2)], "f32 u8")
    for mode in ("constant", "reflect", "edge", "wrap"):
        add("pad", f"Pad {mode}", "Pad", [t(1, 32, 112, 112), fixed(0, 0, 3, 3, 0, 0, 3, 3)], "f32 f16 u8" if mode == "constant" else "f32",
            mode=mode)
    add("pad", "Pad pixels, channels last", "Pad", [t(1, 224, 224, 3), fixed(0, 1, 1, 0, 0, 1, 1, 0)], "f32 u8", mode="constant")
    add("concat", "Concat channels", "Concat", [t(1, 64, 56, 56), t(1, 64, 56, 56)], "f32 f16 u8", axis=1)
    add("concat", "Concat last of 16", "Concat", [t(8192, 16), t(8192, 16), t(8192, 8)], "f32 f16 i64", axis=1)
    add("split", "Split channels", "Split", [t(1, 128, 56, 56)], "f32 f16", outputs=2, num_outputs=2, axis=1)
    add("split", "Split last", "Split", [t(512, 768)], "f32 i64", outputs=3, num_outputs=3, axis=1)
    add("tile", "Tile rows", "Tile", [t(64, 1024), fixed(4, 1)], "f32 i64")
    add("tile", "Tile of every axis", "Tile", [t(16, 16, 16), fixed(2, 2, 2)], "f32 f16 i64")
    add("tile", "Tile columns", "Tile", [t(1024, 32), fixed(1, 8)], "f32 u8")
    add("expand", "Expand rows", "Expand", [t(1, 1024), fixed(256, 1024)], "f32 f16 i64")
    add("expand", "Expand columns", "Expand", [t(256, 1), fixed(256, 1024)], "f32 i64 bool")
    add("expand", "Expand rows of 3", "Expand", [t(1, 3), fixed(50000, 3)], "f32 i64")
    add("expand", "Expand to rows of 3", "Expand", [t(50000, 1), fixed(50000, 3)], "f32 i64")
    add("expand", "Expand heads", "Expand", [t(1, 4, 1, 256, 64), fixed(1, 4, 4, 256, 64)], "f32 f16")
    for name, x, perm in (("Transpose matrix", (512, 512), (1, 0)), ("Transpose heads", (1, 128, 12, 64), (0, 2, 1, 3)),
                          ("Transpose to channels last", (1, 64, 64, 64), (0, 2, 3, 1)),
                          ("Transpose from channels last", (1, 64, 64, 64), (0, 3, 1, 2)),
                          ("Transpose image of 3", (1, 256, 256, 3), (0, 3, 1, 2)), ("Transpose keys", (1, 128, 12, 64), (0, 2, 3, 1)),
                          ("Transpose all", (64, 64, 64), (2, 1, 0)), ("Transpose from channels last, 56x56", (1, 56, 56, 64), (0, 3, 1, 2)),
                          ("Transpose maps of 14x14", (8, 64, 14, 14), (0, 1, 3, 2)), ("Transpose 1000 of 8x12", (1000, 8, 12), (0, 2, 1)),
                          ("Transpose 1000 of 4x12", (1000, 4, 12), (0, 2, 1)), ("Transpose 1000 of 4x4", (1000, 4, 4), (0, 2, 1)),
                          ("Transpose 1000 of 7x7", (1000, 7, 7), (0, 2, 1)), ("Transpose 1000 of 6x20", (1000, 6, 20), (0, 2, 1)),
                          ("Transpose image of 4", (1, 256, 256, 4), (0, 3, 1, 2))):
        add("transpose", name, "Transpose", [t(*x)], "f32 f16 u8 i64" if "matrix" in name or "from channels last" in name else "f32 f16 u8", perm=list(perm))
    add("depth-space", "DepthToSpace DCR", "DepthToSpace", [t(1, 64, 64, 64)], "f32 f16", blocksize=2)
    add("depth-space", "DepthToSpace CRD", "DepthToSpace", [t(1, 64, 64, 64)], "f32", blocksize=2, mode="CRD")
    add("depth-space", "DepthToSpace 4", "DepthToSpace", [t(1, 64, 64, 64)], "f32 u8", blocksize=4)
    add("depth-space", "SpaceToDepth", "SpaceToDepth", [t(1, 16, 128, 128)], "f32 f16", blocksize=2)
    add("depth-space", "SpaceToDepth 4", "SpaceToDepth", [t(1, 16, 128, 128)], "f32 u8", blocksize=4)
    add("moves", "ReverseSequence batch first", "ReverseSequence", [t(16, 128, 64), integers(128, 16, low=1)], "f32", time_axis=1, batch_axis=0)
    add("moves", "ReverseSequence short steps", "ReverseSequence", [t(64, 512, 2), integers(512, 64, low=1)], "f32", time_axis=1, batch_axis=0)
    add("moves", "ReverseSequence", "ReverseSequence", [t(128, 16, 256), integers(128, 16, low=1)], "f32", time_axis=0, batch_axis=1)
    add("moves", "Trilu", "Trilu", [t(8, 256, 256)], "f32 i64", upper=0)
    add("moves", "Range", "Range", [scalar(0, "i64", False), scalar(200000, "i64", False), scalar(1, "i64", False)], "i64")
    add("moves", "ConstantOfShape", "ConstantOfShape", [integers(513, 2, low=512)], "f32")
    add("moves", "ConstantOfShape of ones", "ConstantOfShape", [integers(513, 2, low=512)], "i64 f16",
        value=lambda dtype: helper.make_tensor("one", NUMBERS[np.dtype(dtype)], [1], np.ones(1, dtype).tobytes(), raw=True))
    add("moves", "EyeLike", "EyeLike", [t(512, 512)], "f32")
    add("moves", "Col2Im", "Col2Im", [t(1, 16 * 9, 56 * 56), fixed(56, 56), fixed(3, 3)], pads=[1] * 4)


def images():
    def resize(name, x, sizes, types="f32 f16", **more):
        add("resize", name, "Resize", [t(*x), None, None, fixed(*sizes)], types, model=19, **more)

    resize("Resize nearest 2x", (1, 32, 64, 64), (1, 32, 128, 128), "f32 f16 u8", mode="nearest", coordinate_transformation_mode="asymmetric",
           nearest_mode="floor")
    resize("Resize nearest 1.5x", (1, 32, 64, 64), (1, 32, 96, 96), "f32 u8", mode="nearest")
    resize("Resize linear 2x", (1, 32, 64, 64), (1, 32, 128, 128), "f32 f16 u8", mode="linear")
    resize("Resize linear 3 channels to half", (1, 3, 512, 512), (1, 3, 256, 256), "f32 u8", mode="linear")
    resize("Resize linear align_corners", (1, 21, 65, 65), (1, 21, 257, 257), "f32", mode="linear", coordinate_transformation_mode="align_corners")
    resize("Resize linear, channels last", (1, 256, 256, 3), (1, 224, 224, 3), "f32 u8", mode="linear")
    resize("Resize cubic 2x", (1, 16, 64, 64), (1, 16, 128, 128), "f32", mode="cubic")
    resize("Resize linear antialias", (1, 3, 512, 512), (1, 3, 224, 224), "f32 u8", mode="linear", antialias=1)
    resize("Resize linear 3-D", (1, 8, 16, 32, 32), (1, 8, 32, 64, 64), "f32", mode="linear")
    resize("Resize linear 1-D", (1, 64, 1, 1000), (1, 64, 1, 2000), "f32", mode="linear")
    for mode in ("linear", "nearest", "cubic"):
        add("grid sample", f"GridSample {mode}", "GridSample", [t(1, 16, 64, 64), t(1, 64, 64, 2, low=-1, high=1)],
            "f32 f16" if mode == "linear" else "f32", model=20, mode=mode)
    add("grid sample", "GridSample border", "GridSample", [t(1, 16, 64, 64), t(1, 64, 64, 2, low=-1.2, high=1.2)], model=20, mode="linear",
        padding_mode="border", align_corners=1)
    add("grid sample", "AffineGrid", "AffineGrid", [t(1, 2, 3), fixed(1, 3, 256, 256)], model=20)
    add("roi", "RoiAlign", "RoiAlign", [t(1, 64, 56, 56), t(32, 4, low=0, high=50), Tensor((), value=np.zeros(32, np.int64))],
        output_height=7, output_width=7, sampling_ratio=2, spatial_scale=1.0, model=16)
    add("roi", "MaxRoiPool", "MaxRoiPool", [t(1, 64, 56, 56), Tensor((), value=np.concatenate(
        [np.zeros((32, 1)), np.random.default_rng(7).uniform(0, 25, (32, 2)), np.random.default_rng(8).uniform(26, 55, (32, 2))],
        1).astype(np.float32))], pooled_shape=[7, 7])


def attention():
    heads = (1, 12, 128, 64)
    add("attention", "Attention 12x128x64", "Attention", [t(*heads), t(*heads), t(*heads)], "f32 f16", model=23)
    add("attention", "Attention causal", "Attention", [t(*heads), t(*heads), t(*heads)], model=23, is_causal=1)
    ms = {"domain": "com.microsoft"}
    rows = (1, 128, 768)
    add("attention", "MultiHeadAttention", "MultiHeadAttention", [t(*rows), t(*rows), t(*rows)], "f32 f16", num_heads=12, **ms)
    add("attention", "contrib Attention", "Attention", [t(*rows), weight(768, 2304), weight(2304)], num_heads=12, **ms)
    add("attention", "GroupQueryAttention, one token", "GroupQueryAttention",
        [t(1, 1, 768), t(1, 1, 192), t(1, 1, 192), t(1, 3, 255, 64), t(1, 3, 255, 64), Tensor((), value=np.array([255], np.int32)),
         scalar(256, "i32")], "f32 f16", outputs=3, num_heads=12, kv_num_heads=3, **ms)
    add("attention", "QAttention", "QAttention",
        [t(*rows, type="u8"), weight(768, 2304, type="i8", low=-127, high=127), weight(2304, type="f32"), scalar(0.02), scalar(0.002), None,
         scalar(128, "u8"), scalar(0, "i8")], num_heads=12, **ms)
    add("attention", "RotaryEmbedding", "RotaryEmbedding", [t(1, 12, 128, 64), Tensor((), value=np.arange(128)[None]), weight(256, 32), weight(256, 32)],
        "f32 f16", **ms)
    add("attention", "EmbedLayerNormalization", "EmbedLayerNormalization",
        [integers(1000, 1, 128, type="i32"), None, weight(1000, 768), weight(512, 768), None, weight(768), weight(768)], outputs=2, **ms)


def recurrent():
    def cell(op, gates, name, seq, batch, inputs, hidden, types="f32 f16"):
        add("recurrent", name, op, [t(seq, batch, inputs), weight(1, gates * hidden, inputs), weight(1, gates * hidden, hidden),
                                    weight(1, 2 * gates * hidden)], types, outputs=2, hidden_size=hidden)

    cell("LSTM", 4, "LSTM 128, 64 steps", 64, 1, 128, 128)
    cell("LSTM", 4, "LSTM 256, 1 step", 1, 1, 256, 256, "f32")
    cell("LSTM", 4, "LSTM 256, batch 8", 32, 8, 256, 256, "f32")
    cell("GRU", 3, "GRU 128, 64 steps", 64, 1, 128, 128)
    cell("RNN", 1, "RNN 128, 64 steps", 64, 1, 128, 128, "f32")
    add("recurrent", "DynamicQuantizeLSTM 128", "DynamicQuantizeLSTM",
        [t(32, 1, 128), weight(1, 128, 512, type="i8", low=-127, high=127), weight(1, 128, 512, type="i8", low=-127, high=127), weight(1, 1024), None,
         None, None, None, weight(1, low=0.001, high=0.002), Tensor((1,), constant=True, value=np.zeros(1, np.int8)), weight(1, low=0.001, high=0.002),
         Tensor((1,), constant=True, value=np.zeros(1, np.int8))], outputs=2, domain="com.microsoft", hidden_size=128)


def quantised():
    whole = (256, 1024)
    for type, zero in (("u8", 128), ("i8", 0)):
        add("quantise", f"QuantizeLinear {type}", "QuantizeLinear", [t(*whole), scalar(0.03), scalar(zero, type)], "f32")
        add("quantise", "DequantizeLinear", "DequantizeLinear", [t(*whole), scalar(0.03), scalar(zero, type)], type)
    add("quantise", "QuantizeLinear u8", "QuantizeLinear", [t(*whole), Tensor((), constant=True, value=0.03, type="case"), scalar(128, "u8")], "f16")
    add("quantise", "QuantizeLinear by channel", "QuantizeLinear", [t(1, 64, 56, 56), weight(64, low=0.01, high=0.05), weight(64, type="i8", low=0, high=1)],
        axis=1)
    add("quantise", "QuantizeLinear by column", "QuantizeLinear", [t(*whole), weight(1024, low=0.01, high=0.05), weight(1024, type="i8", low=0, high=1)],
        axis=1)
    add("quantise", "DequantizeLinear by channel", "DequantizeLinear", [t(1, 64, 56, 56), weight(64, type="f32", low=0.01, high=0.05)], "i8", axis=1)
    add("quantise", "DequantizeLinear i32", "DequantizeLinear", [t(*whole), scalar(0.03)], "i32")
    add("quantise", "DynamicQuantizeLinear", "DynamicQuantizeLinear", [t(*whole)], outputs=3)
    ms = {"domain": "com.microsoft"}

    def point(type):
        return [scalar(0.03), scalar(128 if type == "u8" else 3, type)]

    for type in ("u8", "i8"):
        for op in ("QLinearAdd", "QLinearMul"):
            add("bytes", op, op, [t(*whole), *point(type), t(*whole), *point(type), *point(type)], type, **ms)
        add("bytes", "QLinearAdd channels", "QLinearAdd", [t(1, 64, 56, 56), *point(type), t(64, 1, 1), *point(type), *point(type)], type, **ms)
        add("bytes", "QLinearSigmoid", "QLinearSigmoid", [t(*whole), *point(type), *point(type)], type, **ms)
        add("bytes", "QLinearSoftmax", "QLinearSoftmax", [t(512, 512), *point(type), *point(type)], type, opset=13, **ms)
        add("bytes", "QLinearConcat", "QLinearConcat", [*point(type), t(1, 64, 56, 56), *point(type), t(1, 64, 56, 56), *point(type)], type, axis=1, **ms)
    add("bytes", "QLinearLeakyRelu", "QLinearLeakyRelu", [t(*whole), *point("u8"), *point("u8")], "u8", **ms)
    add("bytes", "QLinearWhere", "QLinearWhere", [t(*whole, type="bool"), t(*whole), *point("u8"), t(*whole), *point("u8"), *point("u8")], "u8", **ms)


def casts():
    for name, types in (("f32", "f16 bf16 f64 i64 i32 u8 i8 bool"), ("f16", "f32 f64 i64 i32 i16 i8"), ("i64", "f32 i32 bool f16 f64"),
                        ("i32", "f32 i64 u8 f64 bf16"), ("u8", "f32 i32 f64 i8"), ("bool", "f32 i64 f64 f16"), ("bf16", "f32 f64 i64 i32 i8"),
                        ("f64", "f32 bf16 i16 bool"), ("i8", "f32 f64 bool"), ("i16", "f64 i64 i32")):
        for type in types.split():
            add("cast", f"Cast {type} to {name}", "Cast", [t(256, 1024)], type, to=NUMBERS[np.dtype(DTYPES[name])])


def random_numbers():
    for op in ("RandomNormal", "RandomUniform"):
        add("random", op, op, [], shape=[256, 1024], seed=1.0, random=True)
        add("random", f"{op}Like", f"{op}Like", [t(256, 1024)], seed=1.0, random=True)
    add("random", "Bernoulli", "Bernoulli", [t(256, 1024, low=0, high=1)], seed=1.0, random=True)
    add("random", "Multinomial", "Multinomial", [t(8, 1000)], sample_size=100, seed=1.0, random=True)


def control_flow():
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["still"]), helper.make_node("Mul", ["state", "half"], ["scaled"]),
         helper.make_node("Add", ["scaled", "one"], ["next"]), helper.make_node("ReduceSum", ["next"], ["total"], keepdims=0)],
        "body", [info("count", 7, []), info("on", 9, []), info("state", 1, [64])],
        [info("still", 9, []), info("next", 1, [64]), info("total", 1, [])],
        [helper.make_tensor("half", 1, [], [0.5]), helper.make_tensor("one", 1, [], [1.0])])
    add("control flow", "Loop of 200", "Loop", [scalar(200, "i64"), scalar(True, "bool"), t(64)], outputs=2, body=body)
    step = helper.make_graph(
        [helper.make_node("MatMul", ["state", "w"], ["moved"]), helper.make_node("Add", ["moved", "row"], ["sum"]),
         helper.make_node("Tanh", ["sum"], ["next"]), helper.make_node("Identity", ["next"], ["out"])],
        "step", [info("state", 1, [1, 64]), info("row", 1, [1, 64])], [info("next", 1, [1, 64]), info("out", 1, [1, 64])],
        [helper.make_tensor("w", 1, [64, 64], (np.random.default_rng(0).standard_normal((64, 64)) * 0.1).astype(np.float32).tobytes(), raw=True)])
    add("control flow", "Scan of 200", "Scan", [t(1, 64), t(200, 1, 64)], outputs=2, body=step, num_scan_inputs=1)


def signals():
    add("signal", "DFT 1024", "DFT", [t(64, 1024, 1)], model=20, onesided=1)
    add("signal", "DFT 1000", "DFT", [t(64, 1000, 1)], model=20, onesided=1)
    add("signal", "DFT inverse 1024", "DFT", [t(64, 1024, 2)], model=20, inverse=1)
    add("signal", "STFT 400 by 160", "STFT", [t(1, 16000, 1), scalar(160, "i64"), weight(400), scalar(400, "i64")], model=17)
    add("signal", "HannWindow", "HannWindow", [scalar(16000, "i64", False)], "f32", model=17)
    add("signal", "MelWeightMatrix", "MelWeightMatrix", [scalar(80, "i64", False), scalar(512, "i64", False), scalar(16000, "i64", False), scalar(0.0, "f32", False),
                                                         scalar(8000.0, "f32", False)], model=17)


def trees(count, depth, features, seed=5):
    """The attributes of `count` full trees."""
    generator = np.random.default_rng(seed)
    inner, nodes = 2**depth - 1, 2**(depth + 1) - 1
    ids = list(range(nodes))
    leaves = range(inner, nodes)
    return {
        "nodes_treeids": [tree for tree in range(count) for _ in ids], "nodes_nodeids": ids * count,
        "nodes_modes": ([b"BRANCH_LEQ"] * inner + [b"LEAF"] * (nodes - inner)) * count,
        "nodes_featureids": [int(v) for v in generator.integers(0, features, nodes * count)],
        "nodes_values": [float(v) for v in generator.standard_normal(nodes * count)],
        "nodes_truenodeids": [2 * i + 1 if i < inner else 0 for i in ids] * count,
        "nodes_falsenodeids": [2 * i + 2 if i < inner else 0 for i in ids] * count,
    }, [(tree, leaf) for tree in range(count) for leaf in leaves], generator


def classic():
    ml = {"domain": "ai.onnx.ml"}
    for rows in (1, 10, 1000):
        attributes, leaves, generator = trees(100, 6, 20)
        weights = [float(v) for v in generator.standard_normal(len(leaves))]
        add("trees", f"TreeEnsembleRegressor, {rows} rows", "TreeEnsembleRegressor", [t(rows, 20)], **ml, n_targets=1,
            target_treeids=[tree for tree, _ in leaves], target_nodeids=[leaf for _, leaf in leaves], target_ids=[0] * len(leaves),
            target_weights=weights, **attributes)
        add("trees", f"TreeEnsembleClassifier, {rows} rows", "TreeEnsembleClassifier", [t(rows, 20)], outputs=2, **ml,
            classlabels_int64s=[0, 1, 2], class_treeids=[tree for tree, _ in leaves], class_nodeids=[leaf for _, leaf in leaves],
            class_ids=[i % 3 for i in range(len(leaves))], class_weights=weights, post_transform="SOFTMAX", **attributes)
    generator = np.random.default_rng(6)

    def numbers(count):
        return [float(v) for v in generator.standard_normal(count)]

    add("ml", "LinearClassifier", "LinearClassifier", [t(1000, 100)], outputs=2, **ml, coefficients=numbers(1000), intercepts=numbers(10),
        classlabels_ints=list(range(10)), post_transform="SOFTMAX", multi_class=1)
    add("ml", "LinearRegressor", "LinearRegressor", [t(1000, 100)], **ml, coefficients=numbers(100), intercepts=numbers(1), targets=1)
    add("ml", "LinearRegressor of 8", "LinearRegressor", [t(1000, 100)], **ml, coefficients=numbers(800), intercepts=numbers(8), targets=8)
    for rows in (1, 200):
        size = "" if rows == 200 else ", 1 row"
        for kernel in ("RBF", "LINEAR", "POLY", "SIGMOID"):
            add("ml", f"SVMRegressor {kernel}{size}", "SVMRegressor", [t(rows, 20)], **ml, coefficients=numbers(300), support_vectors=numbers(6000), n_supports=300,
                kernel_type=kernel, kernel_params=[0.05, 0.0, 3.0], rho=[0.1], one_class=0)
        add("ml", f"SVMClassifier POLY of 1500{size}", "SVMClassifier", [t(rows, 20)], outputs=2, **ml, coefficients=numbers(4500), support_vectors=numbers(30000),
            vectors_per_class=[375] * 4, kernel_type="POLY", kernel_params=[0.05, 0.0, 3.0], rho=numbers(6), classlabels_ints=[0, 1, 2, 3])
        add("ml", f"SVMClassifier RBF{size}", "SVMClassifier", [t(rows, 20)], outputs=2, **ml, coefficients=numbers(600), support_vectors=numbers(6000),
            vectors_per_class=[100] * 3, kernel_type="RBF", kernel_params=[0.05, 0.0, 3.0], rho=numbers(3), classlabels_ints=[0, 1, 2])
        add("ml", f"SVMClassifier linear{size}", "SVMClassifier", [t(rows, 20)], outputs=2, **ml, coefficients=numbers(60), kernel_type="LINEAR", kernel_params=[0.0] * 3,
            rho=numbers(1), classlabels_ints=[0, 1, 2])
    add("ml", "LinearClassifier, 1 row", "LinearClassifier", [t(1, 100)], outputs=2, **ml, coefficients=numbers(1000), intercepts=numbers(10),
        classlabels_ints=list(range(10)), post_transform="SOFTMAX", multi_class=1)
    add("ml", "LinearClassifier of 2", "LinearClassifier", [t(1000, 100)], outputs=2, **ml, coefficients=numbers(100), intercepts=numbers(1),
        classlabels_ints=[0, 1], post_transform="LOGISTIC")
    add("ml", "LinearRegressor, 1 row", "LinearRegressor", [t(1, 100)], **ml, coefficients=numbers(100), intercepts=numbers(1), targets=1)
    for op, attributes in (("Scaler", {"offset": numbers(64), "scale": numbers(64)}), ("Normalizer", {"norm": "L2"}),
                           ("Imputer", {"imputed_value_floats": [0.5], "replaced_value_float": 0.0})):
        add("ml", f"{op}, 1 row", op, [t(1, 64)], **ml, **attributes)
    add("ml", "Normalizer L1", "Normalizer", [t(4096, 64)], **ml, norm="L1")
    add("ml", "Normalizer MAX", "Normalizer", [t(4096, 64)], **ml, norm="MAX")
    add("ml", "Imputer by column", "Imputer", [t(4096, 64)], **ml, imputed_value_floats=numbers(64), replaced_value_float=float("nan"))
    add("ml", "Scaler", "Scaler", [t(4096, 64)], **ml, offset=numbers(64), scale=numbers(64))
    add("ml", "Normalizer", "Normalizer", [t(4096, 64)], **ml, norm="L2")
    add("ml", "Imputer", "Imputer", [t(4096, 64)], **ml, imputed_value_floats=[0.5], replaced_value_float=0.0)
    add("ml", "Binarizer", "Binarizer", [t(4096, 64)], **ml, threshold=0.1)
    add("ml", "OneHotEncoder", "OneHotEncoder", [integers(20, 4096, 4)], "i64", **ml, cats_int64s=list(range(20)), zeros=1)
    add("ml", "OneHotEncoder, 1 row", "OneHotEncoder", [integers(20, 1, 4)], "i64", **ml, cats_int64s=list(range(20)), zeros=1)
    add("ml", "LabelEncoder", "LabelEncoder", [integers(100, 65536)], "i64", **ml, keys_int64s=list(range(100)), values_floats=numbers(100))
    far = [int(v) for v in np.random.default_rng(9).choice(10**9, 1000, replace=False)]
    asked = np.random.default_rng(10).choice(far, 65536)
    add("ml", "LabelEncoder, sparse", "LabelEncoder", [Tensor((), value=asked)], "i64", **ml, keys_int64s=far, values_int64s=list(range(1000)))
    add("ml", "LabelEncoder to strings", "LabelEncoder", [integers(100, 65536)], "i64", **ml, keys_int64s=list(range(100)), values_strings=[f"class {i}" for i in range(100)])
    add("ml", "LabelEncoder", "LabelEncoder", [Tensor((), value=(asked % 1000).astype(np.float32))], "f32", **ml, keys_floats=[float(v) for v in range(1000)], values_floats=numbers(1000))


def cases():
    if not CASES:
        for family in (convolutions, pools, products, norms, unary, binary, reductions, order, gathers, moves, images, attention, recurrent, quantised,
                       casts, random_numbers, control_flow, signals, classic):
            family()
        for one in CASES:  # labels that several cases share would be read as one
            one.name = one.name.strip()
    return CASES
