#!/usr/bin/env python3
"""Times single operators on a CUDA device: models of one node in Tenon's EP (in the onnxruntime that is installed), and
the same operator of torch, on the same tensors of the device.

    gpu_operators.py --plugin build/release/lib/libtenon_ep_cuda.so [--only REGEX] [--rounds 5] [--seconds 90] [--out DIR]
    gpu_operators.py --cpu [--only REGEX]     # no GPU: torch beside ONNX Runtime's CPU EP, nothing is timed

Both run on torch's stream, in turns. A turn queues its runs behind a kernel that waits, so that the host's part of a run
is not in what two events measure; the figure is the median of the turns' means, in microseconds. `ratio` is Tenon's time
over torch's; `bytes` the share that reading the inputs and writing the outputs once, at the speed of a large copy, is of
Tenon's time; `error` the largest difference from torch's result relative to its largest magnitude. torch is eager, but
compiled where it would need several kernels (`compiled`); where it has no such operator its column names what ran
instead. TF32 is on for both. One JSON line a case, also in DIR/gpu_operators.jsonl, and a table, DIR/gpu_operators.md.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import statistics
import time
import typing

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn.functional as F
from onnx import helper

EP = "TenonCudaExecutionProvider"
MI = 1 << 20


@dataclasses.dataclass
class Case:
    """`inputs`: name -> tensor that is fed; `weights`: name -> tensor that the model has. The node takes `order`."""
    name: str
    op: str
    inputs: dict
    torch: typing.Callable  # of the inputs, then the weights, in their order: the outputs
    weights: dict = dataclasses.field(default_factory=dict)
    attributes: dict = dataclasses.field(default_factory=dict)
    order: tuple = ()  # of the node's inputs; default: inputs, then weights
    compiled: bool = False
    instead: str = ""  # what torch does where it has no such operator
    made: typing.Optional[torch.dtype] = None  # of the outputs, where torch's are others
    opset: int = 21


class Maker:
    """Tensors of a case on the device, the same in each process."""

    def __init__(self, device):
        self.device = device
        self.generator = torch.Generator(device=device)

    def begin(self, name):
        self.generator.manual_seed(len(name))

    def normal(self, *shape, dtype=torch.float32):
        return torch.randn(shape, generator=self.generator, device=self.device).to(dtype)

    def integers(self, low, high, shape, dtype=torch.int64):
        return torch.randint(low, high, shape, generator=self.generator, device=self.device, dtype=dtype)

    def bytes(self, *shape):
        return self.integers(0, 255, shape, torch.uint8)

    def constant(self, *values, dtype=torch.int64):
        return torch.tensor(values, dtype=dtype, device=self.device)

    def scalar(self, value, dtype=torch.float32):
        return torch.tensor(value, dtype=dtype, device=self.device)


CASES = []


# A case is made when it is run: all of them at once would not fit.
def case(name, **fixed):
    def add(make):
        def whole(maker):
            maker.begin(name)
            return Case(name=name, **(fixed | make(maker)))
        CASES.append((name, whole))
        return make
    return add


def simple(name, op, shape, function, weights=None, dtype=torch.float32, **more):
    @case(name, op=op, **more)
    def _(m):
        return {"inputs": {"x": m.normal(*shape, dtype=dtype)}, "torch": lambda x, *_: function(x),
                "weights": {key: m.constant(*values) for key, values in (weights or {}).items()}}


def reductions():
    rows = (16384, 1024)
    for name, op, shape, axes, function in (
            ("ReduceSum all", "ReduceSum", rows, (0, 1), lambda x: x.sum((0, 1), keepdim=True)),
            ("ReduceMax all", "ReduceMax", rows, (0, 1), lambda x: x.amax((0, 1), keepdim=True)),
            ("ReduceMean rows of 1024", "ReduceMean", rows, (1,), lambda x: x.mean(1, keepdim=True)),
            ("ReduceSum rows of 64", "ReduceSum", (262144, 64), (1,), lambda x: x.sum(1, keepdim=True)),
            ("ReduceSum rows of 2Mi", "ReduceSum", (8, 2 * MI), (1,), lambda x: x.sum(1, keepdim=True)),
            ("ReduceSum first axis", "ReduceSum", rows, (0,), lambda x: x.sum(0, keepdim=True)),
            ("ReduceMax first axis, 64 columns", "ReduceMax", (262144, 64), (0,), lambda x: x.amax(0, keepdim=True)),
            ("ReduceSum middle axis", "ReduceSum", (64, 1024, 256), (1,), lambda x: x.sum(1, keepdim=True)),
            ("ReduceSum outer axes", "ReduceSum", (64, 256, 1024), (0, 2), lambda x: x.sum((0, 2), keepdim=True)),
            ("ReduceMean images", "ReduceMean", (64, 256, 32, 32), (2, 3), lambda x: x.mean((2, 3), keepdim=True)),
            ("ReduceL2 rows", "ReduceL2", rows, (1,), lambda x: torch.linalg.vector_norm(x, 2, 1, keepdim=True)),
            ("ReduceLogSumExp rows", "ReduceLogSumExp", rows, (1,), lambda x: torch.logsumexp(x, 1, keepdim=True))):
        simple(name, op, shape, function, {"axes": axes})
    simple("ReduceSum rows f16", "ReduceSum", rows, lambda x: x.sum(1, keepdim=True), {"axes": (1,)}, torch.float16)
    simple("ArgMax rows of 1024", "ArgMax", rows, lambda x: x.argmax(1, keepdim=True), attributes={"axis": 1})
    simple("ArgMax rows of 128Ki", "ArgMax", (128, 131072), lambda x: x.argmax(1, keepdim=True), attributes={"axis": 1})
    simple("ArgMax first axis", "ArgMax", rows, lambda x: x.argmax(0, keepdim=True), attributes={"axis": 0})
    simple("Softmax rows of 1024", "Softmax", rows, lambda x: x.softmax(1), attributes={"axis": 1})
    simple("Softmax rows of 64Ki", "Softmax", (256, 65536), lambda x: x.softmax(1), attributes={"axis": 1})
    simple("Softmax channels", "Softmax", (16, 64, 128, 128), lambda x: x.softmax(1), attributes={"axis": 1})
    simple("LogSoftmax rows of 32Ki f16", "LogSoftmax", (512, 32768), lambda x: x.log_softmax(1), dtype=torch.float16,
           attributes={"axis": 1})
    for name, shape, axis in (("CumSum rows of 1024", rows, 1), ("CumSum first axis", rows, 0),
                              ("CumSum rows of 1Mi", (16, MI), 1)):
        @case(name, op="CumSum")
        def _(m, shape=shape, axis=axis):
            return {"inputs": {"x": m.normal(*shape)}, "weights": {"axis": m.scalar(axis, torch.int64)},
                    "torch": lambda x, _: x.cumsum(axis)}
    simple("TopK 10 of 4096", "TopK", (4096, 4096), lambda x: tuple(x.topk(10, 1)), {"k": (10,)})
    simple("TopK 100 of 128Ki", "TopK", (128, 131072), lambda x: tuple(x.topk(100, 1)), {"k": (100,)})


def normalisations():
    def scaled(name, op, shape, size, function, **more):
        @case(name, op=op, **more)
        def _(m):
            return {"inputs": {"x": m.normal(*shape)}, "torch": function,
                    "weights": {"scale": m.normal(size), "bias": m.normal(size)}}

    scaled("InstanceNormalization 128x128", "InstanceNormalization", (16, 64, 128, 128), 64,
           lambda x, s, b: F.instance_norm(x, weight=s, bias=b))
    scaled("GroupNormalization 32 of 256", "GroupNormalization", (16, 256, 64, 64), 256,
           lambda x, s, b: F.group_norm(x, 32, s, b), attributes={"num_groups": 32})
    scaled("LayerNormalization rows of 1024", "LayerNormalization", (16384, 1024), 1024,
           lambda x, s, b: F.layer_norm(x, (1024,), s, b), attributes={"axis": -1})

    @case("LayerNormalization two axes", op="LayerNormalization", attributes={"axis": 1})
    def _(m):
        return {"inputs": {"x": m.normal(256, 64, 1024)},
                "weights": {"scale": m.normal(64, 1024), "bias": m.normal(64, 1024)},
                "torch": lambda x, s, b: F.layer_norm(x, (64, 1024), s, b)}

    @case("LayerNormalization, scale is an input", op="LayerNormalization", attributes={"axis": -1})
    def _(m):
        return {"inputs": {"x": m.normal(16384, 1024), "scale": m.normal(1024), "bias": m.normal(1024)},
                "torch": lambda x, s, b: F.layer_norm(x, (1024,), s, b)}
    simple("LpNormalization rows", "LpNormalization", (16384, 1024), lambda x: F.normalize(x, dim=1), compiled=True,
           attributes={"axis": 1, "p": 2})


def indexed():
    rows = (16384, 1024)

    @case("Gather rows of 768", op="Gather")
    def _(m):
        return {"inputs": {"x": m.normal(50000, 768), "index": m.integers(0, 50000, (16384,))},
                "torch": lambda x, i: x[i]}

    for axis in (0, 1):
        @case(f"GatherElements axis {axis}", op="GatherElements", attributes={"axis": axis})
        def _(m, axis=axis):
            return {"inputs": {"x": m.normal(*rows), "index": m.integers(0, rows[axis], rows)},
                    "torch": lambda x, i: torch.gather(x, axis, i)}

    @case("GatherND elements", op="GatherND")
    def _(m):
        return {"inputs": {"x": m.normal(*rows), "index": m.integers(0, 1024, (4 * MI, 2))},
                "torch": lambda x, i: x[i[:, 0], i[:, 1]]}

    @case("ScatterElements axis 1, permuted", op="ScatterElements", attributes={"axis": 1})
    def _(m):
        order = torch.rand(rows, generator=m.generator, device=m.device).argsort(1)
        return {"inputs": {"x": m.normal(*rows), "index": order, "updates": m.normal(*rows)},
                "torch": lambda x, i, u: x.scatter(1, i, u)}

    for axis, shape in ((0, rows), (1, rows), (0, (MI, 16)), (1, (16, MI))):
        @case(f"ScatterElements add axis {axis} of {list(shape)}", op="ScatterElements",
              attributes={"axis": axis, "reduction": "add"})
        def _(m, axis=axis, shape=shape):
            return {"inputs": {"x": m.normal(*shape), "index": m.integers(0, shape[axis], shape),
                               "updates": m.normal(*shape)},
                    "torch": lambda x, i, u: x.scatter_add(axis, i, u)}

    @case("ScatterElements max axis 0", op="ScatterElements", attributes={"axis": 0, "reduction": "max"})
    def _(m):
        return {"inputs": {"x": m.normal(*rows), "index": m.integers(0, rows[0], rows), "updates": m.normal(*rows)},
                "torch": lambda x, i, u: x.scatter_reduce(0, i, u, "amax")}

    @case("ScatterND rows", op="ScatterND")
    def _(m):
        order = torch.randperm(rows[0], generator=m.generator, device=m.device)
        return {"inputs": {"x": m.normal(*rows), "index": order[:, None].contiguous(), "updates": m.normal(*rows)},
                "torch": lambda x, i, u: x.index_copy(0, i[:, 0], u)}

    @case("ScatterND add rows of 64 (graph)", op="ScatterND", attributes={"reduction": "add"})
    def _(m):
        return {"inputs": {"x": m.normal(20000, 64), "index": m.integers(0, 20000, (160000, 1)),
                           "updates": m.normal(160000, 64)},
                "torch": lambda x, i, u: x.index_add(0, i[:, 0], u)}

    @case("ScatterND add elements", op="ScatterND", attributes={"reduction": "add"})
    def _(m):
        return {"inputs": {"x": m.normal(MI), "index": m.integers(0, MI, (4 * MI, 1)), "updates": m.normal(4 * MI)},
                "torch": lambda x, i, u: x.index_add(0, i[:, 0], u)}

    @case("OneHot of 1024", op="OneHot", instead="one_hot and a conversion")
    def _(m):
        return {"inputs": {"index": m.integers(0, 1024, (16384,))},
                "weights": {"depth": m.constant(1024), "values": m.constant(0, 1, dtype=torch.float32)},
                "torch": lambda i, *_: F.one_hot(i, 1024).float()}
    simple("Trilu", "Trilu", (16, 1024, 1024), torch.tril, attributes={"upper": 0})


def moves():
    for name, shape, order, dtype in (
            ("Transpose 4096x4096", (4096, 4096), (1, 0), torch.float32),
            ("Transpose 4096x4096 f16", (4096, 4096), (1, 0), torch.float16),
            ("Transpose bytes 8192x8192", (8192, 8192), (1, 0), torch.uint8),
            ("Transpose to channels last", (64, 256, 32, 32), (0, 2, 3, 1), torch.float32),
            ("Transpose from channels last", (64, 32, 32, 256), (0, 3, 1, 2), torch.float32),
            ("Transpose to few channels", (64, 3, 256, 256), (0, 2, 3, 1), torch.float32),
            ("Transpose heads", (128, 128, 12, 64), (0, 2, 1, 3), torch.float32),
            ("Transpose keys", (128, 128, 12, 64), (0, 2, 3, 1), torch.float32),
            ("Transpose all three", (256, 256, 256), (2, 1, 0), torch.float32)):
        @case(name, op="Transpose", attributes={"perm": order})
        def _(m, shape=shape, order=order, dtype=dtype):
            x = m.bytes(*shape) if dtype is torch.uint8 else m.normal(*shape, dtype=dtype)
            return {"inputs": {"x": x}, "torch": lambda x: x.permute(order).contiguous()}

    for name, axis, widths in (("Concat rows of 2048", 1, (2048, 2048)), ("Concat rows of 1000 and 24", 1, (1000, 24)),
                               ("Concat eight of 512", 1, (512,) * 8)):
        @case(name, op="Concat", attributes={"axis": axis})
        def _(m, axis=axis, widths=widths):
            lines = 16 * MI // sum(widths)
            return {"inputs": {f"x{i}": m.normal(lines, width) for i, width in enumerate(widths)},
                    "torch": lambda *x: torch.cat(x, axis)}

    @case("Slice every second", op="Slice")
    def _(m):
        return {"inputs": {"x": m.normal(8192, 4096)}, "torch": lambda x, *_: x[:, ::2].contiguous(),
                "weights": {"starts": m.constant(0), "ends": m.constant(4096), "axes": m.constant(1),
                            "steps": m.constant(2)}}

    @case("Pad images", op="Pad")
    def _(m):
        return {"inputs": {"x": m.normal(16, 64, 128, 128)}, "torch": lambda x, _: F.pad(x, (1, 1, 1, 1)),
                "weights": {"pads": m.constant(0, 0, 1, 1, 0, 0, 1, 1)}}
    simple("Expand columns", "Expand", (16384, 1), lambda x: x.expand(16384, 1024).contiguous(), {"s": (16384, 1024)})
    simple("Tile rows", "Tile", (4096, 1024), lambda x: x.repeat(1, 4), {"repeats": (1, 4)})
    simple("DepthToSpace", "DepthToSpace", (16, 256, 64, 64), lambda x: F.pixel_shuffle(x, 2),
           attributes={"blocksize": 2, "mode": "CRD"})


def elementwise():
    simple("Gelu", "Gelu", (16384, 1024), F.gelu)
    simple("Cast to f16", "Cast", (16384, 1024), torch.Tensor.half, attributes={"to": onnx.TensorProto.FLOAT16})

    @case("Add row", op="Add")
    def _(m):
        return {"inputs": {"x": m.normal(16384, 1024), "y": m.normal(1024)}, "torch": torch.add}

    @case("Add column", op="Add")
    def _(m):
        return {"inputs": {"x": m.normal(16384, 1024), "y": m.normal(16384, 1)}, "torch": torch.add}

    @case("Where", op="Where")
    def _(m):
        return {"inputs": {"c": m.normal(16384, 1024) > 0, "x": m.normal(16384, 1024), "y": m.normal(16384, 1024)},
                "torch": torch.where}

    def quantized(x, scale, zero):
        return (torch.round(x / scale) + zero).clamp(0, 255).to(torch.uint8)

    @case("QuantizeLinear", op="QuantizeLinear", compiled=True)
    def _(m):
        return {"inputs": {"x": m.normal(16384, 1024)}, "torch": quantized,
                "weights": {"scale": m.scalar(0.03125), "zero": m.scalar(128, torch.uint8)}}

    @case("DequantizeLinear rows", op="DequantizeLinear", compiled=True, attributes={"axis": 0})
    def _(m):
        return {"inputs": {"x": m.bytes(16384, 1024)},
                "weights": {"scale": m.normal(16384).abs() + 0.01, "zero": m.bytes(16384)},
                "torch": lambda x, s, z: (x.float() - z.float()[:, None]) * s[:, None]}

    def dynamic(x):
        low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
        scale = (high - low) / 255
        zero = torch.round(-low / scale).clamp(0, 255)
        return quantized(x, scale, zero), scale, zero.to(torch.uint8)
    simple("DynamicQuantizeLinear", "DynamicQuantizeLinear", (16384, 1024), dynamic, compiled=True)


def images():
    def resize(name, shape, scale, mode, function, **more):
        @case(name, op="Resize", attributes={"mode": mode, **more}, order=("x", "", "scales"))
        def _(m):
            return {"inputs": {"x": m.normal(*shape)}, "torch": lambda x, _: function(x),
                    "weights": {"scales": m.constant(1, 1, scale, scale, dtype=torch.float32)}}

    resize("Resize linear 2x", (16, 64, 64, 64), 2, "linear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))
    resize("Resize nearest 2x", (16, 64, 64, 64), 2, "nearest", lambda x: F.interpolate(x, scale_factor=2),
           coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    resize("Resize cubic 2x", (4, 64, 128, 128), 2, "cubic", lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
           cubic_coeff_a=-0.75)
    resize("Resize linear to half", (16, 64, 256, 256), 0.5, "linear",
           lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"))

    @case("GridSample", op="GridSample", attributes={"mode": "linear", "align_corners": 0})
    def _(m):
        return {"inputs": {"x": m.normal(16, 64, 128, 128), "grid": m.normal(16, 128, 128, 2).clamp(-1.2, 1.2)},
                "torch": lambda x, g: F.grid_sample(x, g, align_corners=False)}

    pool3 = {"kernel_shape": (2, 2, 2), "strides": (2, 2, 2)}
    simple("MaxPool 2x2x2", "MaxPool", (8, 32, 32, 64, 64), lambda x: F.max_pool3d(x, 2), attributes=pool3)
    simple("AveragePool 3x3x3", "AveragePool", (4, 32, 32, 64, 64),
           lambda x: F.avg_pool3d(x, 3, 1, 1), attributes={"kernel_shape": (3, 3, 3), "pads": (1,) * 6,
                                                           "count_include_pad": 1})
    simple("MaxPool 3x3", "MaxPool", (16, 64, 112, 112), lambda x: F.max_pool2d(x, 3, 2, 1),
           attributes={"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1,) * 4})
    simple("AveragePool 3x3", "AveragePool", (16, 64, 112, 112), lambda x: F.avg_pool2d(x, 3, 1, 1),
           attributes={"kernel_shape": (3, 3), "pads": (1,) * 4, "count_include_pad": 1})
    simple("MaxPool 2x2 f16", "MaxPool", (16, 64, 128, 128), lambda x: F.max_pool2d(x, 2), dtype=torch.float16,
           attributes={"kernel_shape": (2, 2), "strides": (2, 2)})


def convolutions():
    def conv(name, x, w, function, dtype=torch.float32, op="Conv", **attributes):
        @case(name, op=op, attributes=attributes)
        def _(m):
            return {"inputs": {"x": m.normal(*x, dtype=dtype)},
                    "weights": {"w": (m.normal(*w) / np.prod(w[1:]) ** 0.5).to(dtype)}, "torch": function}

    for dtype, mark in ((torch.float32, ""), (torch.float16, " f16")):
        conv("Conv 3-D 32 to 64" + mark, (1, 32, 32, 64, 64), (64, 32, 3, 3, 3), lambda x, w: F.conv3d(x, w, padding=1),
             dtype, pads=(1,) * 6)
        conv("Conv 3-D 64 to 64 1x1x1" + mark, (1, 64, 32, 64, 64), (64, 64, 1, 1, 1), F.conv3d, dtype)
        conv("Conv 32 groups of 8" + mark, (16, 256, 56, 56), (256, 8, 3, 3),
             lambda x, w: F.conv2d(x, w, padding=1, groups=32), dtype, pads=(1,) * 4, group=32)
        conv("Conv 1x1, 256 to 64" + mark, (16, 256, 56, 56), (64, 256, 1, 1), F.conv2d, dtype)
        conv("ConvTranspose 4x4" + mark, (8, 256, 64, 64), (256, 128, 4, 4),
             lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), dtype, op="ConvTranspose", strides=(2, 2),
             pads=(1,) * 4)
        conv("Conv depthwise" + mark, (16, 256, 56, 56), (256, 1, 3, 3),
             lambda x, w: F.conv2d(x, w, padding=1, groups=256), dtype, pads=(1,) * 4, group=256)
    conv("Conv 3-D stem, 3 to 32 stride 2", (4, 3, 32, 112, 112), (32, 3, 3, 3, 3),
         lambda x, w: F.conv3d(x, w, stride=2, padding=1), pads=(1,) * 6, strides=(2, 2, 2))
    conv("Conv 3-D depthwise", (1, 64, 32, 64, 64), (64, 1, 3, 3, 3), lambda x, w: F.conv3d(x, w, padding=1, groups=64),
         pads=(1,) * 6, group=64)
    conv("Conv 1-D", (16, 256, 4096), (256, 256, 3), lambda x, w: F.conv1d(x, w, padding=1), pads=(1, 1))
    conv("ConvTranspose 2x2", (8, 256, 64, 64), (256, 128, 2, 2), lambda x, w: F.conv_transpose2d(x, w, stride=2),
         op="ConvTranspose", strides=(2, 2))
    conv("ConvTranspose 3x3", (8, 256, 64, 64), (256, 128, 3, 3), lambda x, w: F.conv_transpose2d(x, w, padding=1),
         op="ConvTranspose", pads=(1,) * 4)

    @case("Conv 1x1 and a bias, f16", op="Conv")
    def _(m):
        return {"inputs": {"x": m.normal(16, 256, 56, 56, dtype=torch.float16)}, "torch": F.conv2d,
                "weights": {"w": (m.normal(64, 256, 1, 1) / 16).half(), "b": m.normal(64).half()}}

    @case("Conv, weights are an input", op="Conv", attributes={"pads": (1,) * 4})
    def _(m):
        return {"inputs": {"x": m.normal(8, 128, 56, 56), "w": m.normal(128, 128, 3, 3) / 34},
                "torch": lambda x, w: F.conv2d(x, w, padding=1)}


def products():
    def einsum(name, equation, a, b, dtype=torch.float32):
        @case(name, op="Einsum", attributes={"equation": equation})
        def _(m):
            return {"inputs": {"a": m.normal(*a, dtype=dtype), "b": m.normal(*b, dtype=dtype)},
                    "torch": lambda a, b: torch.einsum(equation, a, b)}

    einsum("Einsum bij,bjk->bik", "bij,bjk->bik", (64, 512, 512), (64, 512, 512))
    einsum("Einsum bihd,bjhd->bhij", "bihd,bjhd->bhij", (16, 512, 12, 64), (16, 512, 12, 64))
    einsum("Einsum bihd,bjhd->bhij f16", "bihd,bjhd->bhij", (16, 512, 12, 64), (16, 512, 12, 64), torch.float16)
    einsum("Einsum bi,bi->b", "bi,bi->b", (8192, 1024), (8192, 1024))
    einsum("Einsum bi,bj->bij", "bi,bj->bij", (64, 512), (64, 512))

    for name, rows, depth, columns in (("2048", 2048, 2048, 2048), ("512x768x768", 512, 768, 768),
                                       ("2048x768x3072", 2048, 768, 3072)):
        @case("MatMulInteger " + name, op="MatMulInteger")
        def _(m, rows=rows, depth=depth, columns=columns):
            a, b = (m.integers(-128, 127, shape, torch.int8) for shape in ((rows, depth), (depth, columns)))
            turned = b.t().contiguous().t()
            return {"inputs": {"a": a}, "weights": {"b": b}, "torch": lambda a, _: torch._int_mm(a, turned)}

    # With zero points; torch has no such products: those of float16, which are not exact.
    def integer_conv(name, x, w, op, group=1, **attributes):
        def function(x, *others):
            return F.conv2d(x, half_weights[name], padding=1, groups=group)
        half_weights = {}

        @case(name, op=op, instead="Conv f16", attributes={"pads": (1,) * 4, "group": group, **attributes})
        def _(m):
            weights = m.integers(-127, 127, w, torch.int8)
            half_weights[name] = (weights.float() / 127).half()
            result = {"inputs": {"x": m.bytes(*x)}, "torch": lambda x, *_: function(half)}
            half = m.normal(*x, dtype=torch.float16)
            if op == "ConvInteger":
                result["weights"] = {"w": weights, "x_zero": m.scalar(128, torch.uint8)}
                result["made"] = torch.int32
            else:
                result["weights"] = {
                    "x_scale": m.scalar(0.02), "x_zero": m.scalar(128, torch.uint8), "w": weights,
                    "w_scale": m.scalar(0.01), "w_zero": m.scalar(0, torch.int8), "y_scale": m.scalar(0.1),
                    "y_zero": m.scalar(128, torch.uint8)}
                result["made"] = torch.uint8
            return result

    integer_conv("ConvInteger 64 to 64", (16, 64, 56, 56), (64, 64, 3, 3), "ConvInteger")
    integer_conv("QLinearConv 64 to 64", (16, 64, 56, 56), (64, 64, 3, 3), "QLinearConv")
    integer_conv("QLinearConv 256 to 256", (16, 256, 28, 28), (256, 256, 3, 3), "QLinearConv")
    integer_conv("QLinearConv 32 groups of 8", (16, 256, 56, 56), (256, 8, 3, 3), "QLinearConv", 32)
    integer_conv("QLinearConv depthwise", (16, 256, 56, 56), (256, 1, 3, 3), "QLinearConv", 256)


def recurrent():
    for op, gates in (("LSTM", 4), ("GRU", 3)):
        for batch, hidden in ((1, 256), (16, 512)):
            @case(f"{op} {hidden} units, 128 steps, batch {batch}", op=op, attributes={
                "hidden_size": hidden, **({"linear_before_reset": 1} if op == "GRU" else {})})
            def _(m, op=op, gates=gates, batch=batch, hidden=hidden):
                layer = getattr(torch.nn, op)(hidden, hidden, device=m.device)
                # ONNX: input, output, forget, cell; torch: input, forget, cell, output. GRU: update first.
                order = (0, 3, 1, 2) if op == "LSTM" else (1, 0, 2)

                def gate_order(tensor):
                    parts = tensor.detach().chunk(gates)
                    return torch.cat([parts[i] for i in order])[None].contiguous()
                bias = torch.cat([gate_order(layer.bias_ih_l0), gate_order(layer.bias_hh_l0)], 1)
                return {"inputs": {"x": m.normal(128, batch, hidden)},
                        "weights": {"w": gate_order(layer.weight_ih_l0), "r": gate_order(layer.weight_hh_l0), "b": bias},
                        "torch": lambda x, *_: layer(x)[0][:, None]}


for family in (reductions, normalisations, indexed, moves, elementwise, images, convolutions, products, recurrent):
    family()


TYPES = {torch.float32: onnx.TensorProto.FLOAT, torch.float16: onnx.TensorProto.FLOAT16,
         torch.uint8: onnx.TensorProto.UINT8, torch.int8: onnx.TensorProto.INT8, torch.int32: onnx.TensorProto.INT32,
         torch.int64: onnx.TensorProto.INT64, torch.bool: onnx.TensorProto.BOOL}


def model_of(case, outputs):
    graph = helper.make_graph(
        [helper.make_node(case.op, list(case.order or (*case.inputs, *case.weights)),
                          [f"out{i}" for i in range(len(outputs))], **case.attributes)],
        "case", [helper.make_tensor_value_info(name, TYPES[x.dtype], list(x.shape)) for name, x in case.inputs.items()],
        [helper.make_tensor_value_info(f"out{i}", TYPES[y.dtype], list(y.shape)) for i, y in enumerate(outputs)],
        [onnx.numpy_helper.from_array(w.cpu().numpy(), name) for name, w in case.weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)],
                             ir_version=10).SerializeToString()


def session_of(model, device, stream):
    options = ort.SessionOptions()
    if device is None:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([device], {"user_compute_stream": str(stream.cuda_stream)})
    return ort.InferenceSession(model, options, enable_fallback=0)


def bind(session, case, outputs, kind):
    binding = session.io_binding()
    for names, tensors, into in (([x.name for x in session.get_inputs()], case.inputs.values(), binding.bind_input),
                                 ([y.name for y in session.get_outputs()], outputs, binding.bind_output)):
        for name, tensor in zip(names, tensors):
            into(name, kind, 0, helper.tensor_dtype_to_np_dtype(TYPES[tensor.dtype]), tuple(tensor.shape),
                 tensor.data_ptr())
    return binding


def as_list(outputs):
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def size_bytes(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def error_of(got, want):
    worst = 0.0
    for a, b in zip(got, want):
        difference, largest = 0.0, 1e-30
        for i in range(0, max(a.numel(), 1), 8 * MI):  # in parts: doubles of everything take much memory
            u, v = (x.reshape(-1)[i:i + 8 * MI].double() for x in (a, b))
            difference = max(difference, float((u - v).abs().nan_to_num(posinf=1e30).max()))
            largest = max(largest, float(v.abs().max()))
        worst = max(worst, difference / largest)
    return worst


class Bench:
    def __init__(self, args):
        self.args = args
        self.maker = Maker("cpu" if args.cpu else "cuda")
        self.device, self.stream, self.bandwidth = None, None, None
        self.rows = []
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        self.options = ort.RunOptions()
        if not args.cpu:
            ort.register_execution_provider_library("tenon_cuda", str(args.plugin))
            self.device = next(device for device in ort.get_ep_devices() if device.ep_name == EP)
            self.options.add_run_config_entry("disable_synchronize_execution_providers", "1")
            self.stream = torch.cuda.Stream()
            torch.cuda.set_stream(self.stream)
            source = self.maker.normal(128 * MI)
            target = torch.empty_like(source)
            us = self.measure({"copy": lambda: target.copy_(source)})["copy"][0]
            self.bandwidth = 2 * size_bytes([source]) / us * 1e6
            print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                              "onnxruntime": ort.__version__, "copied_bytes_a_second": f"{self.bandwidth:.4g}"}), flush=True)

    def turn(self, action, runs, host_us):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        # At up to 2000 cycles a microsecond; a host that falls behind would be measured instead.
        torch.cuda._sleep(int(max(host_us, 150) * (runs + 1) * 2 * 2000))
        start.record()
        for _ in range(runs):
            action()
        end.record()
        self.stream.synchronize()
        return start.elapsed_time(end) * 1e3 / runs

    # {name: (median, microseconds of the host)}
    def measure(self, actions):
        runs, host, times = {}, {}, {name: [] for name in actions}
        for name, action in actions.items():
            for _ in range(2):
                action()
            self.stream.synchronize()
            begin = time.perf_counter()
            action()
            host[name] = (time.perf_counter() - begin) * 1e6
            self.stream.synchronize()
            runs[name] = int(min(max(3000 / ((time.perf_counter() - begin) * 1e6), 1), 20))
        begin = time.monotonic()
        for _ in range(self.args.rounds):
            if time.monotonic() - begin > self.args.rounds * 0.1:  # what is that slow needs no median
                break
            for name, action in actions.items():
                times[name].append(self.turn(action, runs[name], host[name]))
        return {name: (statistics.median(values), host[name]) for name, values in times.items()}

    def bench(self, case):
        arguments = [*case.inputs.values(), *case.weights.values()]
        function = torch.compile(case.torch, dynamic=False) if case.compiled and not self.args.cpu else case.torch
        with torch.no_grad():
            wanted = as_list(function(*arguments))
            outputs = [torch.empty(y.shape, dtype=case.made or y.dtype, device=y.device) for y in wanted]
            if self.device is not None:
                self.stream.synchronize()
            session = session_of(model_of(case, outputs), self.device, self.stream)
            binding = bind(session, case, outputs, self.maker.device)
            session.run_with_iobinding(binding, self.options)
            if self.device is not None:
                self.stream.synchronize()
            row = {"case": case.name}
            if case.made is None:
                row["error"] = float(f"{error_of(outputs, wanted):.3g}")
            if self.args.cpu:
                return row
            timed = self.measure({"tenon": lambda: session.run_with_iobinding(binding, self.options),
                                  "torch": lambda: function(*arguments)})
        moved = size_bytes([*arguments, *outputs])
        us, rival = timed["tenon"][0], timed["torch"][0]
        row |= {"us": round(us, 1), "torch_us": round(rival, 1), "ratio": round(us / rival, 2),
                "mbytes": round(moved / 1e6, 1), "bytes": round(moved / self.bandwidth * 1e6 / us, 2),
                "host_us": round(timed["tenon"][1], 1), "torch_host_us": round(timed["torch"][1], 1)}
        return row | ({"rival": "compiled"} if case.compiled else {"rival": case.instead} if case.instead else {})

    def table(self):
        lines = ["| operator | Tenon us | torch us | ratio | bytes | error |", "| --- | --- | --- | --- | --- | --- |"]
        for row in self.rows:
            if "us" in row:
                rival = f" ({row['rival']})" if "rival" in row else ""
                lines.append(f"| {row['case']} | {row['us']:.0f} | {row['torch_us']:.0f}{rival} | {row['ratio']} | "
                             f"{row['bytes']} | {row.get('error', '-')} |")
            else:
                lines.append(f"| {row['case']} | {row.get('failed', '-')} | | | | {row.get('error', '-')} |")
        (self.args.out / "gpu_operators.md").write_text("\n".join(lines) + "\n")

    def run(self):
        deadline = time.monotonic() + self.args.seconds
        for name, make in CASES:
            if not re.search(self.args.only, name):
                continue
            if time.monotonic() > deadline:
                row = {"case": name, "failed": "no time is left"}
            else:
                try:
                    row = self.bench(make(self.maker))
                except Exception as error:  # one operator does not stop the others
                    row = {"case": name, "failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
            self.rows.append(row)
            print(json.dumps(row), flush=True)
            with open(self.args.out / "gpu_operators.jsonl", "a") as file:
                file.write(json.dumps(row) + "\n")
            self.table()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", type=pathlib.Path)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=90, help="no operator is begun after this")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    args = parser.parse_args()
    if not args.cpu and args.plugin is None:
        parser.error("--plugin is needed")
    args.out.mkdir(parents=True, exist_ok=True)
    Bench(args).run()


if __name__ == "__main__":
    main()
