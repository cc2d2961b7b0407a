#!/usr/bin/env python3
"""A decoder over several CUDA devices (bench/decoder_model.py, a rank on each) beside the same one on the first device: the
tokens that both generate, and the time of a step.

    gpu_ranks.py --worker build/release/bin/gpu_worker --plugin build/release/lib/libtenon_ep_cuda.so
                 --library build/release/lib/libtenon.so [--devices 0,1] [--kinds f32,f16] [--tokens 64] [--past 511]

One JSON line a kind of weights. `tokens_equal` says of the ranks as threads of a process, and as processes, whether each
rank generates the tokens of one device; f32 is computed without TF32. Times are medians of a step, in microseconds. The
process ends with 1 where tokens of f32 differ.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import numpy as np
import onnx

import decoder_model
import gpu

FIRST_TOKEN = 7
SMALL = decoder_model.Sizes(layers=2, size=64, heads=4, kv_heads=2, depth=16, inner=128, vocabulary=96)


class Runs:
    """Of one kind of weights, in a folder of its own."""

    def __init__(self, args, kind, folder, log):
        self.args, self.kind, self.folder, self.log = args, kind, folder, log
        self.precision = ["use_tf32=0"] if kind == "f32" else []
        self.saved = 0

    def worker(self, model, devices, options=()):
        options = [part for option in (*self.precision, *options) for part in ("--option", option)]
        fake = ["--fake-devices", str(self.args.fake_devices)] if self.args.fake_devices else []
        return gpu.Worker([self.args.worker, *fake, "--library", self.args.library, "--model", self.folder / model, "--ep",
                           gpu.TENON_EP, "--plugin", self.args.plugin, "--devices", ",".join(map(str, devices)), *options],
                          self.log, self.args.timeout)

    def write(self, name, rank, ranks):
        sizes = SMALL if self.args.small else None
        model = decoder_model.greedy(decoder_model.model(self.args.past, 1, self.kind, 1, rank, ranks, sizes))
        onnx.save(model, str(self.folder / name))
        return model

    def write_feeds(self, model):
        """The first token. Inputs without a file are zeros: the caches are empty."""
        tokens = np.zeros((1, self.args.past + 1), np.int64)
        tokens[0, 0] = FIRST_TOKEN
        values = {"input_ids": tokens[:, :1], "length": np.ones((1, 1), np.int64), "tokens": tokens}
        for index, value in enumerate(model.graph.input):
            if value.name in values:
                values[value.name].tofile(self.folder / f"{index}.bin")

    def generate(self, workers, sessions, output):
        """The tokens of each rank, and the median time of a step. All workers are asked before one answers."""
        for worker in workers:
            worker.start()
        for line in (f"bind {self.folder}", f"run {self.args.tokens}"):
            for worker in workers:
                worker.process.stdin.write(line + "\n")
                worker.process.stdin.flush()
            answers = [worker.answer() for worker in workers]
        tokens = []
        for worker in workers:
            for session in range(sessions):
                saved = self.folder / f"saved{self.saved}"
                self.saved += 1
                saved.mkdir()
                worker.ask(f"save {saved} {session}")
                tokens.append(np.fromfile(saved / f"{output}.bin", np.int64)[:self.args.tokens + 1].tolist())
            worker.end()
        times = answers[0]["us"]
        return tokens, round(statistics.median(times[len(times) // 2:]), 1)

    def as_threads(self, devices):
        return [self.worker("rank{}.onnx", devices, [*self.ranks("threads"), "collective_rank={}"])], len(devices)

    def as_processes(self, devices):
        return [self.worker(f"rank{rank}.onnx", [device], [*self.ranks("processes"), f"collective_rank={rank}"])
                for rank, device in enumerate(devices)], 1

    def ranks(self, place):
        return [f"collective_world_size={len(self.args.devices)}", f"collective_rendezvous={self.folder / place}",
                "collective_timeout_ms=60000"]

    def run(self):
        devices = self.args.devices
        whole = self.write("whole.onnx", 0, 1)
        for rank in range(len(devices)):
            self.write(f"rank{rank}.onnx", rank, len(devices))
        self.write_feeds(whole)
        output = [value.name for value in whole.graph.output].index("next.tokens")
        (wanted,), one_us = self.generate([self.worker("whole.onnx", devices[:1])], 1, output)
        row = {"kind": self.kind, "tokens": wanted[:12], "one_us": one_us, "tokens_equal": {}}
        for name, start in (("threads", self.as_threads), ("processes", self.as_processes)):
            if name in self.args.ways:
                tokens, row[f"{name}_us"] = self.generate(*start(devices), output)
                row["tokens_equal"][name] = all(own == wanted for own in tokens)
                if tokens[0] != wanted:
                    row[f"{name}_first_difference"] = next(i for i, (a, b) in enumerate(zip(tokens[0], wanted)) if a != b)
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", required=True, type=pathlib.Path)
    parser.add_argument("--plugin", required=True, type=pathlib.Path)
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--devices", default="0,1")
    parser.add_argument("--kinds", default="f32,f16")
    parser.add_argument("--ways", default="threads,processes")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--past", type=int, default=511, help="room for so many tokens before the last one")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for an answer of a worker")
    parser.add_argument("--small", action="store_true", help="a decoder of two small layers")
    parser.add_argument("--fake-devices", type=int, default=0, help="over the tests' driver, which shows so many")
    args = parser.parse_args()
    args.devices = [int(device) for device in args.devices.split(",")]
    for name in ("worker", "plugin", "library"):
        setattr(args, name, getattr(args, name).resolve())
    right = True
    with tempfile.TemporaryDirectory() as scratch, open(pathlib.Path(scratch) / "log", "w+") as log:
        for kind in args.kinds.split(","):
            try:
                row = Runs(args, kind, pathlib.Path(tempfile.mkdtemp(dir=scratch)), log).run()
            except gpu.Failed as failed:
                log.seek(0)
                raise SystemExit(f"{kind}: {failed}\n{log.read()[-2000:]}") from failed
            print(json.dumps(row), flush=True)
            right = right and (kind != "f32" or all(row["tokens_equal"].values()))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
