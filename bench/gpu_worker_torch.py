#!/usr/bin/env python3
"""torch.compile (reduce-overhead) behind the lines of bench/gpu_worker.cc: the torchvision or transformers model that a
file's name says (bench/export_models.py), with the weights that were exported.

    gpu_worker_torch.py NAME_TYPE_BATCH [exact]     # resnet50_f16_b16; exact: float32 without TF32

Besides `bind`, `run` and `save` it answers `peaks`: what the device reaches in a large matrix product of float16 and of
float32 with TF32 (operations a second), and in a large copy (bytes a second, read and written).
"""

import contextlib
import json
import os
import pathlib
import sys
import time

import numpy as np

import export_models


def best_seconds(action, repeats=20):
    import torch

    best = float("inf")
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        action()
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end) / 1e3)
    return best


def peaks(size=8192, copied_bytes=1 << 30):
    import torch

    result = {}
    for name, dtype in (("f16", torch.float16), ("f32", torch.float32)):
        a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
        result[f"{name}_flops"] = 2 * size**3 / best_seconds(lambda: torch.mm(a, b))
    source = torch.zeros(copied_bytes, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    result["bytes"] = 2 * copied_bytes / best_seconds(lambda: target.copy_(source))
    return result


class Worker:
    def __init__(self, stem, precision=""):
        import torch

        self.torch = torch
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "exact"
        name, kind, batch = stem.rsplit("_", 2)
        self.half = kind == "f16"
        start = time.perf_counter()
        model, inputs, _ = export_models.build(name, int(batch[1:]))
        model = model.cuda()
        if self.half:
            model = model.half()
        self.inputs = [(x.half() if self.half and x.is_floating_point() else x).cuda() for x in inputs]
        self.compiled = torch.compile(model, mode="reduce-overhead")
        for _ in range(5):
            self.once()
        self.session_s = time.perf_counter() - start

    def once(self):
        self.outputs = None  # or the graph's memory could not be used again
        with self.torch.no_grad():
            self.outputs = self.compiled(*self.inputs)
        self.torch.cuda.synchronize()

    def bind(self, folder):
        for index, tensor in enumerate(self.inputs):
            dtype = tensor.cpu().numpy().dtype
            array = np.fromfile(pathlib.Path(folder) / f"{index}.bin", dtype).reshape(tensor.shape)
            tensor.copy_(self.torch.from_numpy(array))
        return {}

    def run(self, count):
        times = []
        for _ in range(int(count)):
            start = time.perf_counter()
            self.once()
            times.append((time.perf_counter() - start) * 1e6)
        return {"us": times}

    def save(self, folder):
        outputs = self.outputs
        if hasattr(outputs, "to_tuple"):
            outputs = outputs.to_tuple()
        for index, tensor in enumerate(outputs if isinstance(outputs, (tuple, list)) else [outputs]):
            tensor.cpu().numpy().tofile(pathlib.Path(folder) / f"{index}.bin")
        return {}


def main():
    # What libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    try:
        worker = Worker(*sys.argv[1:])
        answer({"ready": f"torch {worker.torch.__version__}", "session_s": worker.session_s})
        for line in sys.stdin:
            command, *rest = line.split()
            answer(peaks() if command == "peaks" else getattr(worker, command)(*rest))
    except Exception as error:  # whatever it is, the row says so
        answer({"error": f"{type(error).__name__}: {error}".splitlines()[0]})
        return 1
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
