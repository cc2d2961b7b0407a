#!/usr/bin/env python3
"""Whether sessions on several CUDA devices slow each other down: the runs a second of one session alone, and of a session
on each device at once, as threads of one process and as processes.

    gpu_devices.py MODEL.onnx... --worker build/release/bin/gpu_worker --plugin build/release/lib/libtenon_ep_cuda.so
                   --library build/release/lib/libtenon.so [--devices 0,1] [--seconds 2] [--option KEY=VALUE]...

Models have fixed shapes. One JSON line a model: `alone` is the rate of each device's session while the others rest,
`threads` and `processes` are rates of all at once, and `share` is the least that one of them keeps of its rate alone.
"""

import argparse
import json
import pathlib
import tempfile

import numpy as np
import onnx

import gpu

HERE = pathlib.Path(__file__).parent


def write_feeds(model, folder):
    """Random numbers for floats, ones for integers."""
    random = np.random.default_rng(1)
    graph = onnx.load(model, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    for index, value in enumerate(one for one in graph.input if one.name not in constants):
        tensor = value.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        whole = np.issubdtype(dtype, np.integer)
        array = np.ones(shape, dtype) if whole else random.standard_normal(shape).astype(dtype)
        array.tofile(folder / f"{index}.bin")


def rates_of(model, args, log, folder):
    def start(devices):
        options = [part for option in args.option for part in ("--option", option)]
        worker = gpu.Worker([args.worker, "--library", args.library, "--model", model, "--ep", gpu.TENON_EP, "--plugin",
                             args.plugin, "--devices", ",".join(map(str, devices)), *options], log, 120)
        worker.start()
        worker.ask(f"bind {folder}")
        return worker

    def rates(worker, places):
        return worker.ask(f"rate {args.seconds} {' '.join(map(str, places))}")["runs_per_s"]

    places = range(len(args.devices))
    together = start(args.devices)
    rows = {"alone": [rates(together, [place])[0] for place in places], "threads": rates(together, places)}
    together.end()
    workers = [start([device]) for device in args.devices]
    for worker in workers:
        worker.process.stdin.write(f"rate {args.seconds} 0\n")
    for worker in workers:
        worker.process.stdin.flush()
    rows["processes"] = [worker.answer()["runs_per_s"][0] for worker in workers]
    for worker in workers:
        worker.end()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--worker", required=True, type=pathlib.Path)
    parser.add_argument("--plugin", required=True, type=pathlib.Path)
    parser.add_argument("--library", required=True, type=pathlib.Path, help="the host: libtenon.so or libonnxruntime.so")
    parser.add_argument("--devices", default="0,1")
    parser.add_argument("--seconds", type=float, default=2, help="of each rate")
    parser.add_argument("--option", action="append", default=[], help="KEY=VALUE of the EP")
    args = parser.parse_args()
    args.devices = [int(device) for device in args.devices.split(",")]
    for name in ("worker", "plugin", "library"):
        setattr(args, name, getattr(args, name).resolve())
    with tempfile.TemporaryDirectory() as scratch, open(pathlib.Path(scratch) / "log", "w+") as log:
        for model in args.models:
            folder = pathlib.Path(scratch) / model.stem
            folder.mkdir()
            write_feeds(model, folder)
            try:
                rows = rates_of(model.resolve(), args, log, folder)
            except gpu.Failed as failed:
                log.seek(0)
                raise SystemExit(f"{model.stem}: {failed}\n{log.read()[-2000:]}") from failed
            share = {f"{kind}_share": round(min(one / alone for one, alone in zip(rows[kind], rows["alone"])), 3)
                     for kind in ("threads", "processes")}
            print(json.dumps({"model": model.stem, **{kind: [round(one, 1) for one in row] for kind, row in rows.items()},
                              **share}), flush=True)


if __name__ == "__main__":
    main()
