"""The second opinions of the differential fuzzer: ONNX Runtime with and without its optimizations, and the onnx package's reference.

They run in a process of their own, which Oracle starts again after a crash or a hang: `python oracles.py` answers pickled
questions on stdin."""
import ctypes
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import warnings

import numpy as np
import onnx
from onnx import helper

from problems import ODD, is_tensor, tensor_of

ODD_NAMES = {"bfloat16": "BFLOAT16", "float8e4m3fn": "FLOAT8E4M3FN", "float8e4m3fnuz": "FLOAT8E4M3FNUZ", "float8e5m2": "FLOAT8E5M2",
             "float8e5m2fnuz": "FLOAT8E5M2FNUZ", "int4": "INT4", "uint4": "UINT4", "float4e2m1": "FLOAT4E2M1", "uint2": "UINT2", "int2": "INT2"}
WIDE = {"INT4": onnx.TensorProto.INT8, "UINT4": onnx.TensorProto.UINT8, "INT2": onnx.TensorProto.INT8, "UINT2": onnx.TensorProto.UINT8}


def without_odd_inputs(model, feed):
    """(model, feed) with the inputs that ONNX Runtime's Python package cannot take as initializers."""
    odd = {name for name, value in feed.items() if is_tensor(value) and value.dtype in ODD}
    if not odd:
        return model, feed
    proto = onnx.load_from_string(model)
    kept = [value for value in proto.graph.input if value.name not in odd]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    proto.graph.initializer.extend(tensor_of(name, feed[name]) for name in sorted(odd))
    return proto.SerializeToString(), {name: value for name, value in feed.items() if name not in odd}


def with_wide_outputs(model, kinds):
    """The model whose outputs of such types are cast to what numpy has. `kinds`: ONNX Runtime's words for each output."""
    proto, back = onnx.load_from_string(model), {}
    for index, (value, kind) in enumerate(zip(proto.graph.output, kinds)):
        name = ODD_NAMES.get(kind[len("tensor("):-1]) if kind.startswith("tensor(") else None
        if name is None:
            continue
        number = onnx.TensorProto.DataType.Value(name)
        wide = f"{value.name}__wide"
        proto.graph.node.append(helper.make_node("Cast", [value.name], [wide], to=WIDE.get(name, onnx.TensorProto.FLOAT)))
        back[index] = helper.tensor_dtype_to_np_dtype(number)
        value.CopyFrom(onnx.ValueInfoProto(name=wide))
    return proto.SerializeToString(), back


def session_of(model, optimised):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.x64quantprecision", "1")
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def by_onnxruntime(model, feeds, optimised):
    results = []
    plain, session, back = None, None, {}
    for feed in feeds:
        try:
            given, values = without_odd_inputs(model, feed)
            if session is None or given != plain:
                plain, session = given, session_of(given, optimised)
                kinds = [output.type for output in session.get_outputs()]
                given, back = with_wide_outputs(given, kinds)
                if back:
                    session = session_of(given, optimised)
            found = session.run(None, values)
            with np.errstate(all="ignore"):
                results.append(("ok", [value.astype(back[index]) if index in back else value for index, value in enumerate(found)]))
        except Exception as error:
            results.append((" ".join(str(error).split())[:600] or type(error).__name__, []))
    return results


def by_reference(model, feeds):
    from onnx.reference import ReferenceEvaluator
    results = []
    try:
        evaluator = ReferenceEvaluator(model)
    except Exception as error:
        return [(f"{type(error).__name__}: {error}"[:300], [])] * len(feeds)
    for feed in feeds:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = evaluator.run(None, dict(feed))
            results.append(("ok", [np.asarray(value) if not isinstance(value, (list, dict, type(None))) else value for value in found]))
        except Exception as error:
            results.append((f"{type(error).__name__}: {error}"[:300], []))
    return results


ANSWERS = {"plain": lambda model, feeds: by_onnxruntime(model, feeds, False), "optimised": lambda model, feeds: by_onnxruntime(model, feeds, True),
           "reference": by_reference}


class Oracle:
    """Threads: of one at a time."""

    def __init__(self, limit_s=20):
        self.limit_s, self.process, self.asked = limit_s, None, 0

    def start(self):
        self.stop()
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
                                             "ALLOW_RELEASED_ONNX_OPSET_ONLY": "0", "ORT_DISABLE_TELEMETRY": "1"})
        self.asked = 0

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None

    def read(self, count):
        parts = []
        while count > 0:
            if not select.select([self.process.stdout], [], [], self.limit_s)[0]:
                raise TimeoutError
            part = os.read(self.process.stdout.fileno(), min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def ask(self, which, model, feeds):
        """[(status, outputs)] of each feed; the status is "ok" or says why not."""
        if self.process is None or self.process.poll() is not None or self.asked > 4000:
            self.start()
        self.asked += 1
        data = pickle.dumps((which, model, feeds))
        try:
            self.process.stdin.write(struct.pack("<q", len(data)) + data)
            self.process.stdin.flush()
            size, = struct.unpack("<q", self.read(8))
            return pickle.loads(self.read(size))
        except (TimeoutError, EOFError, BrokenPipeError) as error:
            self.stop()
            return [(f"the oracle ended: {type(error).__name__}", [])] * len(feeds)


def end_with_parent():
    """A question that never ends must not outlive the fuzzer that was stopped meanwhile."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def serve():
    end_with_parent()
    given, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    while header := given.read(8):
        which, model, feeds = pickle.loads(given.read(struct.unpack("<q", header)[0]))
        data = pickle.dumps(ANSWERS[which](model, feeds))
        answers.write(struct.pack("<q", len(data)) + data)
        answers.flush()


if __name__ == "__main__":
    serve()
