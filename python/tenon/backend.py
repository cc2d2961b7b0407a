"""ONNX's backend API (onnx.backend.base) over Tenon.

    import tenon.backend

    prepared = tenon.backend.prepare(onnx.load("model.onnx"), device="CPU")
    outputs = prepared.run([x])

It needs the package onnx. `onnxruntime.backend` is this module where Tenon stands in for onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenon import _packed
from tenon._core import OrtValue, RunOptions, SessionOptions, get_ep_devices
from tenon._session import InferenceSession

try:
    import onnx
    from onnx.backend.base import Backend, BackendRep
except ImportError as error:
    raise ImportError(f"tenon.backend needs the package onnx, which cannot be imported here: {error}") from error

# Options that make a session write files are no business of a test suite's.
_REFUSED_SESSION_OPTIONS = ("enable_profiling", "optimized_model_filepath", "profile_file_prefix")
_SESSION_OPTIONS = (
    "enable_cpu_mem_arena",
    "enable_mem_pattern",
    "enable_mem_reuse",
    "execution_mode",
    "execution_order",
    "graph_optimization_level",
    "inter_op_num_threads",
    "intra_op_num_threads",
    "log_severity_level",
    "log_verbosity_level",
    "logid",
    "use_deterministic_compute",
    "use_per_session_threads",
)
_RUN_OPTIONS = ("log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches")


def _session_options(given: dict[str, Any]) -> SessionOptions:
    options = SessionOptions()
    for name, value in given.items():
        if name in _REFUSED_SESSION_OPTIONS:
            raise RuntimeError(f"The backend API does not set SessionOptions.{name}, which writes files.")
        if name in _SESSION_OPTIONS:
            setattr(options, name, value)
    return options


def _run_options(given: dict[str, Any]) -> RunOptions | None:
    options = None
    for name, value in given.items():
        if name in _RUN_OPTIONS:
            options = options if options is not None else RunOptions()
            setattr(options, name, value)
        elif hasattr(RunOptions, name):
            raise RuntimeError(f"The backend API does not set RunOptions.{name}; it sets {', '.join(_RUN_OPTIONS)}.")
    return options


def _feed(given: Any) -> Any:
    """An input as run() takes it."""
    if isinstance(given, (np.ndarray, np.generic)):
        array = np.asarray(given)
        packed = _packed.pack(array)
        return array if packed is None else packed
    return given


def _result(value: OrtValue) -> Any:
    """An output as the array that the onnx package has for its type."""
    if not value.is_tensor():
        return value.to_python()
    unpacked = _packed.unpack(value)
    if unpacked is not None:
        return unpacked
    result = value.to_python()
    # run() gives this type as bytes, as onnxruntime does.
    if value.data_type() == "tensor(float8e4m3fn)" and result.dtype == np.uint8:
        import ml_dtypes

        return result.view(ml_dtypes.float8_e4m3fn)
    return result


class TenonBackendRep(BackendRep):
    """A model that is ready to run many times."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Runs the model and returns a list of its outputs.

        inputs: an array for each input of the model, in their order (get_inputs()), in a list or tuple; or the one array
            of a model with one input; or a dictionary from names to arrays. Arrays of 4 and 2 bits are those of ml_dtypes.
        kwargs: attributes of RunOptions (logid, log_severity_level, log_verbosity_level); unknown ones are ignored.

        Errors: ValueError when the number of arrays is not that of the inputs; else those of InferenceSession.run.
        """
        options = _run_options(kwargs)
        names = [info.name for info in self._session.get_inputs()]
        if isinstance(inputs, dict):
            feed = {name: _feed(value) for name, value in inputs.items()}
        else:
            values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(values) != len(names):
                raise ValueError(f"{len(values)} inputs are given, and the model has {len(names)}: {', '.join(names)}.")
            feed = {name: _feed(value) for name, value in zip(names, values)}
        return [_result(value) for value in self._session.run_with_ort_values(None, feed, options)]


def _is_gpu(device: str) -> bool:
    return device.split(":")[0].upper() in ("CUDA", "GPU")


def _gpu_providers() -> list[str]:
    found = dict.fromkeys(device.ep_name for device in get_ep_devices() if device.device.type.name == "GPU")
    return list(found)


class TenonBackend(Backend):
    """ONNX's backend API over Tenon's sessions."""

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """Whether the device is there; the model itself is looked at by prepare()."""
        return cls.supports_device("CPU" if device is None else device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for "CPU", and for "CUDA" or "GPU" (also "CUDA:1") where a registered provider has such a device."""
        kind, _, index = device.partition(":")
        if kind.upper() == "CPU":
            return True
        if not _is_gpu(kind):
            return False
        count = sum(found.device.type.name == "GPU" for found in get_ep_devices())
        return int(index or 0) < count

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> TenonBackendRep:
        """Loads a model.

        model: an onnx.ModelProto, a path, bytes, an InferenceSession, or what an earlier call has returned.
        device: "CPU" (as None), "CUDA", "CUDA:1", "GPU": the providers of that device come before the CPU's.
        kwargs: attributes of SessionOptions by name; unknown ones are ignored.

        Errors: RuntimeError for a device that is not there and for options that write files; onnx.checker's for a
        ModelProto that breaks ONNX's rules; else those of InferenceSession.
        """
        if isinstance(model, TenonBackendRep):
            return model
        if isinstance(model, InferenceSession):
            return TenonBackendRep(model)
        wanted = "CPU" if device is None else device
        if not cls.supports_device(wanted):
            raise RuntimeError(f"There is no device '{wanted}' here; \"CPU\" is always there.")
        if isinstance(model, onnx.ModelProto):
            onnx.checker.check_model(model)
            model = model.SerializeToString()
        providers: list[Any] = []
        if _is_gpu(wanted):
            index = wanted.partition(":")[2] or "0"
            providers = [(name, {"device_id": index}) for name in _gpu_providers()]
        options = _session_options(kwargs)
        return TenonBackendRep(InferenceSession(model, options, providers=[*providers, "CPUExecutionProvider"]))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any) -> Any:
        """prepare(model, device) and one run: the list of the model's outputs."""
        run_options = {name: value for name, value in kwargs.items() if name in _RUN_OPTIONS}
        return cls.prepare(model, device, **kwargs).run(inputs, **run_options)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str | None = None,
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Runs one node, as a model of its own, and returns a list of its outputs.

        inputs: an array for each input of the node that has a name, in their order, or a dictionary by name.
        outputs_info: the type and shape of each output, where the operator does not say them.
        kwargs: opset_version, the version of the node's domain (else the newest that the onnx package knows); others as
            for prepare().
        """
        version = kwargs.pop("opset_version", None)
        domain = "" if node.domain == "ai.onnx" else node.domain
        if version is None:
            known = [schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == domain]
            version = onnx.defs.onnx_opset_version() if domain == "" else max(known, default=1)
        names = list(dict.fromkeys(name for name in node.input if name))
        values = [inputs[name] for name in names] if isinstance(inputs, dict) else list(inputs)
        if len(values) != len(names):
            raise ValueError(f"{len(values)} inputs are given, and the node has {len(names)}: {', '.join(names)}.")
        arrays = [np.asarray(value) for value in values]
        types = [onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for array in arrays]
        model_inputs = [
            onnx.helper.make_tensor_value_info(name, kind, array.shape) for name, kind, array in zip(names, types, arrays)
        ]
        outputs = [name for name in node.output if name]
        if outputs_info is None:
            model_outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in outputs]
        else:
            model_outputs = [
                onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
                for name, (kind, shape) in zip(outputs, outputs_info)
            ]
        graph = onnx.helper.make_graph([node], "node", model_inputs, model_outputs)
        opsets = [onnx.helper.make_opsetid(domain, version)]
        model = onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph, opset_imports=opsets))
        return cls.prepare(model.SerializeToString(), device, **kwargs).run(arrays)


# The same functions under the names that onnxruntime.backend has.
is_compatible = TenonBackend.is_compatible
supports_device = TenonBackend.supports_device
prepare = TenonBackend.prepare
run_model = run = TenonBackend.run_model
run_node = TenonBackend.run_node
OnnxRuntimeBackend = TenonBackend
OnnxRuntimeBackendRep = TenonBackendRep

