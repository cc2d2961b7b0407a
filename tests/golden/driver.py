"""Writes cases for golden_driver, runs it once, reads the results."""
import dataclasses
import os
import pathlib
import subprocess

import numpy as np
import onnx


@dataclasses.dataclass
class Content:
    """A tensor that an optional holds. Besides: a sequence is a list, a map a dict, an empty optional None."""
    array: np.ndarray


@dataclasses.dataclass
class Case:
    name: str
    model: object  # bytes, or the path of a file
    inputs: dict  # name -> array, list, dict, None or Content
    outputs: list  # expected arrays; None for what is not compared
    again: list = dataclasses.field(default_factory=list)  # (inputs, outputs) of further runs of the same session
    random: bool = False  # each run gives other numbers; without it, two runs have to give the same


@dataclasses.dataclass
class Outcome:
    status: str  # "ok", "<code>: <message>", or "crashed"
    outputs: list  # arrays, of the first run
    claimed: dict = dataclasses.field(default_factory=dict)  # EP -> operators, where there is one
    feeds: list = dataclasses.field(default_factory=list)  # (status, arrays) of each run

    @property
    def ok(self):
        return self.status == "ok"

    @property
    def unsupported(self):
        return self.status.startswith("unsupported:")


def type_number(array):
    if array.dtype.kind in "OUS":
        return onnx.TensorProto.STRING
    return onnx.helper.np_dtype_to_tensor_dtype(array.dtype)


def bytes_of(array):
    """The elements as Tenon holds them: those of less than a byte are packed. Strings: each behind its length."""
    if array.dtype.kind in "OUS":
        texts = [text if isinstance(text, bytes) else str(text).encode() for text in array.flatten()]
        return b"".join(len(text).to_bytes(8, "little") + text for text in texts)
    return onnx.numpy_helper.from_array(np.ascontiguousarray(array)).raw_data


def array_of(number, shape, data):
    if number == onnx.TensorProto.STRING:
        texts = []
        while data:
            end = 8 + int.from_bytes(data[:8], "little")
            texts.append(data[8:end].decode())
            data = data[end:]
        array = np.empty(len(texts), dtype=object)
        array[:] = texts
        return array.reshape(shape)
    return onnx.numpy_helper.to_array(onnx.TensorProto(data_type=number, dims=shape, raw_data=data))


def _dims(array):
    return ",".join(str(dim) for dim in array.shape)


def _words(value, blob):
    """A value that is no tensor, as golden_driver reads it."""
    if value is None:
        return "none"
    if isinstance(value, list):
        return " ".join([f"sequence {len(value)}", *(_words(one, blob) for one in value)])
    if isinstance(value, dict):
        values = np.array(list(value.values()))
        values = values.astype(np.float32) if values.dtype.kind == "f" else values
        return f"map {_words(np.array(list(value)), blob)} {_words(values, blob)}"
    array = np.asarray(value.array if isinstance(value, Content) else value)
    data = bytes_of(array)
    return f"tensor {type_number(array)} {_dims(array) or '-'} {blob.add(data)} {len(data)}"


def _value(words, data):
    """What golden_driver has written so; a map as a dict."""
    kind = words.pop(0)
    if kind == "none":
        return None
    if kind == "sequence":
        return [_value(words, data) for _ in range(int(words.pop(0)))]
    if kind == "map":
        keys, values = _value(words, data), _value(words, data)
        return dict(zip(keys.tolist(), values.tolist()))
    number, dims, begin, size = words[0], words[1], int(words[2]), int(words[3])
    del words[:4]
    shape = tuple(int(dim) for dim in dims.split(",")) if dims != "-" else ()
    return array_of(int(number), shape, data[begin:begin + size])


class _Blob:
    def __init__(self, path):
        self.file = open(path, "wb")
        self.size = 0

    def add(self, data):
        # Models and tensors begin at multiples of 64 bytes.
        padding = -self.size % 64
        self.file.write(b"\0" * padding)
        offset = self.size + padding
        self.file.write(data)
        self.size = offset + len(data)
        return offset


def write(cases, folder):
    """The files that golden_driver reads, and the names of those that it writes: its arguments."""
    folder = pathlib.Path(folder)
    blob = _Blob(folder / "blob")
    lines = []
    for case in cases:
        if isinstance(case.model, bytes):
            lines.append(f"case\t{case.name}\tblob\t{blob.add(case.model)}\t{len(case.model)}")
        else:
            lines.append(f"case\t{case.name}\tpath\t{case.model}")
        if case.random:
            lines.append("random")
        for number, (inputs, outputs) in enumerate([(case.inputs, case.outputs), *case.again]):
            if number > 0:
                lines.append("again")
            for name, array in inputs.items():
                if not isinstance(array, (np.ndarray, np.generic)):
                    lines.append(f"input\t{name}\tobject\t{_words(array, blob)}")
                    continue
                offset = blob.add(bytes_of(array))
                lines.append(f"input\t{name}\t{type_number(array)}\t{_dims(array)}\t{offset}")
            for array in outputs:
                if not isinstance(array, (np.ndarray, np.generic)):
                    lines.append("output\tany")
                    continue
                lines.append(f"output\t{type_number(array)}\t{_dims(array)}")
    blob.file.close()
    (folder / "cases").write_text("".join(line + "\n" for line in lines))
    return [str(folder / name) for name in ("cases", "blob", "results", "outputs")]


def run(cases, folder, options=(), environment=None, timeout=None):
    """{case name: Outcome} for all cases, in one process."""
    folder = pathlib.Path(folder)
    command = [os.environ["TENON_GOLDEN_DRIVER"], *write(cases, folder)]
    done = subprocess.run([*command, *options], env={**os.environ, **(environment or {})}, capture_output=True, text=True,
                          timeout=timeout)
    outcomes = _read(folder)
    if done.returncode != 0:
        print(done.stderr)
        crashed = [name for name, outcome in outcomes.items() if outcome.status == "crashed"]
        assert crashed, f"golden_driver: exit status {done.returncode}: {done.stderr}"
    return outcomes


def run_all(cases, folder, options=("--threads=2",), environment=None, timeout=None):
    """run(); a case that ends the process is left out of the next one, which runs the rest."""
    left, outcomes = list(cases), {}
    while left:
        found = run(left, folder, options, environment, timeout)
        assert found, "golden_driver ran no case"
        outcomes.update(found)
        left = [case for case in left if case.name not in found]
    return outcomes


def plain_session(model):
    """ONNX Runtime's session of a model's bytes, on its CPU EP, with one thread and without optimizations."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _read(folder):
    outcomes, arrays, feeds = {}, [], []
    data = (folder / "outputs").read_bytes()
    for line in (folder / "results").read_text().splitlines():
        kind, *fields = line.split("\t")
        if kind == "begin":
            arrays, feeds = [], []
            name = fields[0]
            outcomes[name] = Outcome("crashed", [])
        elif kind == "output" and fields[0] == "object":
            arrays.append(_value(fields[1].split(), data))
        elif kind == "output":
            shape = tuple(int(dim) for dim in fields[1].split(",") if dim)
            begin, size = int(fields[2]), int(fields[3])
            arrays.append(array_of(int(fields[0]), shape, data[begin:begin + size]))
        elif kind == "fed":
            feeds.append((fields[0], arrays))
            arrays = []
        elif kind == "claimed":
            outcomes[name].claimed.setdefault(fields[0], []).extend(fields[1].split())
        elif kind == "done":
            outcomes[name] = Outcome(fields[1], feeds[0][1] if feeds else [], outcomes[name].claimed, feeds)
    return outcomes
