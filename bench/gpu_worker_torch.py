#!/usr/bin/env python3
"""torch.compile (reduce-overhead) behind the lines of bench/gpu_worker.cc: the torchvision or transformers model that a
file's name says (bench/export_models.py), with the weights that were exported.

    gpu_worker_torch.py NAME_TYPE_BATCH [PRECISION [MODE]]

As in resnet50_f16_b16. PRECISION exact: float32 without TF32. MODE: reduce-overhead, or max-autotune.

Besides `bind`, `run` and `save` it answers `peaks`: what the device reaches in a large matrix product of float16 and of
float32 with TF32 (operations a second), and in a large copy (bytes a second, read and written).
"""

import contextlib
import json
import os
import pathlib
import sys
import time

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
    def __init__(self, stem, precision="", mode="reduce-overhead"):
        import torch

        self.torch = torch
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "exact"
        name, kind, batch = stem.rsplit("_", 2)
        # Weights of 4 bits have no rival: float16 stands there.
        half = {"f16": torch.float16, "bf16": torch.bfloat16, "int4": torch.float16}.get(kind)
        start = time.perf_counter()
        model, inputs, self.names = export_models.build(name, int(batch[1:]))
        model = model.cuda()
        if half:
            model = model.to(half)
        self.inputs = [(x.to(half) if half and x.is_floating_point() else x).cuda() for x in inputs]
        # Caches that are changed in place stay where they are: without this word there would be no CUDA graph.
        for input_name, tensor in zip(self.names, self.inputs):
            if input_name.startswith("past_key_values."):
                torch._dynamo.mark_static_address(tensor)
        self.compiled = torch.compile(model, mode=mode)
        for _ in range(5):
            self.once()
        self.session_s = time.perf_counter() - start

    def once(self):
        self.outputs = None  # or the graph's memory could not be used again
        with self.torch.no_grad():
            self.outputs = self.compiled(*self.inputs)
        self.torch.cuda.synchronize()

    def bind(self, folder):
        folder = pathlib.Path(folder)
        numbers = json.loads((folder / "names.json").read_text())
        for index, (name, tensor) in enumerate(zip(self.names, self.inputs)):
            data = bytearray((folder / f"{numbers.get(name, index)}.bin").read_bytes())
            tensor.copy_(self.torch.frombuffer(data, dtype=tensor.dtype).reshape(tensor.shape))
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
            bits = tensor.cpu().contiguous()
            bits = bits.view(self.torch.int16) if bits.dtype == self.torch.bfloat16 else bits
            bits.numpy().tofile(pathlib.Path(folder) / f"{index}.bin")
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
