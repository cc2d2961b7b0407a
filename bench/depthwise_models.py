#!/usr/bin/env python3
"""Writes models of depthwise convolutions alone, for tenon_cuda_region_benchmark.

    depthwise_models.py DIRECTORY [--type f16] [--layers 16] [SHAPE...]
    for m in DIRECTORY/*.onnx; do tenon_cuda_region_benchmark $m --runs 200 --report; done

A shape is CHANNELSxHEIGHTxWIDTH:KERNEL[:STRIDE[:BATCH]], for example 96x56x56:7 or 120x28x28:5x5:1. Each model is a
product of single pixels, so that channels lie last, LAYERS convolutions one after the other, and another product.
With a stride there is one convolution. `base_*.onnx` have the two products alone: a convolution takes the difference of
the medians, divided by the layers. The report's times are of each kernel alone.
"""

import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPES = [
    # ConvNeXt, EfficientNet and MobileNetV3, large images, large batches, one dimension.
    *("96x56x56:7", "192x28x28:7", "384x14x14:7", "768x7x7:7", "96x56x56:7:1:16", "128x160x160:7"),
    *("240x28x28:5", "672x14x14:5", "1152x7x7:5", "240x56x56:5:2", "480x14x14:3", "256x32x32:9", "96x56x56:3"),
    *("144x56x56:1x7", "144x56x56:7x1", "512x1x1500:1x31", "672x14x14:5:2"),
]


def pair(text):
    sizes = [int(size) for size in text.split("x")]
    return sizes * 2 if len(sizes) == 1 else sizes


def model(shape, element_type, layers):
    sizes, kernel, *rest = shape.split(":")
    channels, height, width = (int(size) for size in sizes.split("x"))
    kernel, stride, batch = pair(kernel), int(rest[0]) if rest else 1, int(rest[1]) if len(rest) > 1 else 1
    layers = min(layers, 1) if stride != 1 else layers
    numbers = np.random.default_rng(0)
    kind = np.float16 if element_type == TensorProto.FLOAT16 else np.float32
    constants, nodes = [], []

    def conv(x, weight_shape, **attributes):
        name = f"c{len(nodes)}"
        fan_in = int(np.prod(weight_shape[1:]))
        weights = (numbers.standard_normal(weight_shape) / fan_in**0.5).astype(kind)
        bias = numbers.standard_normal(weight_shape[0]).astype(kind)
        constants.extend([numpy_helper.from_array(weights, name + "_w"), numpy_helper.from_array(bias, name + "_b")])
        nodes.append(helper.make_node("Conv", [x, name + "_w", name + "_b"], [name], name=name, **attributes))
        return name

    value = conv("x", (channels, 8, 1, 1))
    pads = [kernel[0] // 2, kernel[1] // 2] * 2
    for _ in range(layers):
        value = conv(value, (channels, 1, *kernel), group=channels, pads=pads, strides=[stride, stride])
    value = conv(value, (8, channels, 1, 1))
    x = helper.make_tensor_value_info("x", element_type, [batch, 8, height, width])
    out = [(size + 2 * (k // 2) - k) // stride + 1 if layers else size for size, k in zip((height, width), kernel)]
    y = helper.make_tensor_value_info(value, element_type, [batch, 8, *out])
    graph = helper.make_graph(nodes, "depthwise", [x], [y], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    parser.add_argument("--type", choices=["f16", "f32"], default="f16")
    parser.add_argument("--layers", type=int, default=16)
    arguments = parser.parse_args()
    element_type = TensorProto.FLOAT16 if arguments.type == "f16" else TensorProto.FLOAT
    arguments.directory.mkdir(parents=True, exist_ok=True)
    for shape in arguments.shapes:
        name = f"{arguments.type}_{shape.replace(':', '_')}.onnx"
        onnx.save(model(shape, element_type, arguments.layers), arguments.directory / f"depthwise_{name}")
        onnx.save(model(shape, element_type, 0), arguments.directory / f"base_{name}")


if __name__ == "__main__":
    main()
