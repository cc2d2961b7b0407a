#!/usr/bin/env python3
"""Exports the models that bench/gpu.py measures, with random weights (seed 0) and BatchNorms that fit them, as ONNX
files of opset 18.

    export_models.py export OUT [--models resnet50,bert_base] [--types f32,f16] [--batches 1,16]
    export_models.py decoders OUT [--models decoder_step511] [--types f16,bf16,int4] [--batches 1,8]
    export_models.py strip MODEL... --out OUT    # leaves large weights out: only their mean and deviation stay
    export_models.py fill MODEL... --out OUT     # random weights in place of those that were left out

Models are resnet50, mobilenet_v2, bert_base, those of networks.py, and timm.NAME, any image model of the package timm;
`decoders` writes decoders in ONNX Runtime's own operators (decoder_model.py). Needs torch 2.11 to export, torchvision and
transformers for the first three, timm for its own; numpy and onnx for the rest.
"""

import argparse
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper

STRIPPED = "tenon.stripped"  # "mean deviation" of a weight that is left out, in the initializer's doc string
LARGE = 4096  # elements
SEQUENCE = 128
DECODERS = {"decoder_step511": (511, 1), "decoder_step4095": (4095, 1), "decoder_prompt512": (0, 512)}


def calibrate(model, inputs=None):
    """Gives the variance of each BatchNorm what it sees, one number for all its channels.

    Random weights alone let MobileNetV2's activations shrink from layer to layer, until float16 has only zeros left and
    every result is as right as any other. One number, and no means, because this only scales each layer: a variance for
    each channel would bring forward channels of little more than rounding (in a model of this network, TF32 then
    changes 1.6 percent of a result instead of 0.06), in every implementation.
    """
    import torch

    if inputs is None:
        inputs = (torch.randn(4, 3, 224, 224, generator=torch.Generator().manual_seed(0)),)

    def observe(norm, inputs):
        norm.running_var.fill_(inputs[0].square().mean())

    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    hooks = [norm.register_forward_pre_hook(observe) for norm in norms]
    with torch.no_grad():
        model(*inputs)
    for hook in hooks:
        hook.remove()
    return model


def has_batch_norms(model):
    import torch

    return any(isinstance(module, torch.nn.BatchNorm2d) for module in model.modules())


def build(name, batch):
    import torch

    torch.manual_seed(0)
    if name in ("resnet50", "mobilenet_v2"):
        import torchvision

        model = getattr(torchvision.models, name)(weights=None).eval()
        return calibrate(model), (torch.randn(batch, 3, 224, 224),), ["image"]
    if name.startswith("timm."):
        import timm

        model = timm.create_model(name.removeprefix("timm."), pretrained=False).eval()
        inputs = (torch.randn(batch, *model.default_cfg["input_size"]),)
        return calibrate(model, inputs) if has_batch_norms(model) else model, inputs, ["image"]
    if name != "bert_base":
        import networks

        model, inputs, names = networks.NETWORKS[name](batch)
        model = model.eval()
        return calibrate(model, inputs) if has_batch_norms(model) else model, inputs, names
    from transformers import BertConfig, BertModel

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = BertModel(BertConfig(), add_pooling_layer=True).eval()

        def forward(self, input_ids, attention_mask, token_type_ids):
            out = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
            return out.last_hidden_state, out.pooler_output

    ids = torch.randint(0, 30000, (batch, SEQUENCE))
    inputs = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    return Encoder().eval(), inputs, ["input_ids", "attention_mask", "token_type_ids"]


def export(args):
    import torch

    for name in args.models:
        for batch in args.batches:
            for kind in args.types:
                model, inputs, names = build(name, batch)
                if kind == "f16":
                    model = model.half()
                    inputs = tuple(x.half() if x.is_floating_point() else x for x in inputs)
                path = args.out / f"{name}_{kind}_b{batch}.onnx"
                with torch.no_grad():
                    torch.onnx.export(model, inputs, str(path), dynamo=True, opset_version=18, input_names=names,
                                      external_data=False)
                print(path, flush=True)


def decoders(args):
    import decoder_model

    for name in args.models:
        for batch in args.batches:
            for kind in args.types:
                path = args.out / f"{name}_{kind}_b{batch}.onnx"
                onnx.save(decoder_model.model(*DECODERS[name], kind, batch), str(path))
                print(path, flush=True)


def large(tensor):
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    return tensor.data_type in floats and np.prod(tensor.dims) >= LARGE


def strip(args):
    for path in args.files:
        model = onnx.load(str(path))
        for tensor in model.graph.initializer:
            if not large(tensor):
                continue
            values = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.doc_string = f"{STRIPPED} {values.mean():.8g} {values.std():.8g}"
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
            tensor.ClearField("int32_data")
        for node in model.graph.node:
            node.ClearField("metadata_props")
            node.ClearField("doc_string")
        for value in model.graph.value_info:
            value.ClearField("metadata_props")
        onnx.save(model, str(args.out / path.name))


def fill(args):
    for path in args.files:
        model = onnx.load(str(path))
        rng = np.random.default_rng(0)
        for tensor in model.graph.initializer:
            if not tensor.doc_string.startswith(STRIPPED):
                continue
            mean, deviation = map(float, tensor.doc_string.split()[1:])
            values = rng.standard_normal(int(np.prod(tensor.dims)), dtype=np.float32) * deviation + mean
            tensor.raw_data = values.astype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).tobytes()
            tensor.ClearField("doc_string")
        onnx.save(model, str(args.out / path.name))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    items = lambda text: text.split(",")
    command = commands.add_parser("export")
    command.add_argument("out", type=pathlib.Path)
    command.add_argument("--models", type=items, default=["resnet50", "mobilenet_v2", "bert_base"])
    command.add_argument("--types", type=items, default=["f32", "f16"])
    command.add_argument("--batches", type=lambda text: [int(item) for item in items(text)], default=[1, 16])
    command.set_defaults(run=export)
    command = commands.add_parser("decoders")
    command.add_argument("out", type=pathlib.Path)
    command.add_argument("--models", type=items, default=list(DECODERS))
    command.add_argument("--types", type=items, default=["f16", "bf16", "int4"])
    command.add_argument("--batches", type=lambda text: [int(item) for item in items(text)], default=[1, 8])
    command.set_defaults(run=decoders)
    for name, run in (("strip", strip), ("fill", fill)):
        command = commands.add_parser(name)
        command.add_argument("files", type=pathlib.Path, nargs="+")
        command.add_argument("--out", type=pathlib.Path, required=True)
        command.set_defaults(run=run)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    args.run(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
