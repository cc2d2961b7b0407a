"""ortpy, a Python module over ONNX Runtime's C++ header: what it sees of each model, and of misuse. Usage: drive_ortpy.py MODELS

Runs with models of tests/drop_in/models.py. Prints one JSON object."""
import json
import pathlib
import sys

import numpy as np
import ortpy

import loaded


def attempt(work):
    """The result, or the message of the error, which begins with the C API's code in both libraries."""
    try:
        return work()
    except Exception as error:
        return f"{type(error).__name__}"


def type_of(info):
    seen = {"kind": str(info.onnx_type), "denotation": info.denotation}
    for name in ("shape", "dimensions", "dtype", "map_key_type"):
        seen[name] = attempt(lambda name=name: getattr(info, name))
    for name in ("map_value_type", "sequence_element_type", "optional_contained_type"):
        inner = attempt(lambda name=name: getattr(info, name))
        seen[name] = inner if isinstance(inner, str) or inner is None else type_of(inner)
    return seen


def value_of(value):
    if value is None or not value.has_value:
        return None
    if not value.is_tensor:
        return [str(value.value_type), [value_of(value[i]) for i in range(len(value))]]
    memory = value.get_tensor_memory_info()
    kind = attempt(lambda: value.dtype)  # it has no name for strings
    data = attempt(lambda: value.get_strings() if kind == "RuntimeError" else value.numpy().tolist())
    return [kind, value.shape, attempt(value.get_tensor_size_in_bytes), memory.name, str(memory.device_type), data]


def options():
    made = ortpy.SessionOptions()
    made.set_intra_op_num_threads(1)
    made.set_session_log_severity_level(4)
    return made


def session(folder, name):
    path = folder / f"{name}.onnx"
    made = ortpy.Session(str(path), options())
    metadata = made.get_model_metadata()
    return made, {"inputs": {k: type_of(v) for k, v in made.get_input_info().items()},
                  "outputs": {k: type_of(v) for k, v in made.get_output_info().items()},
                  "overridable": {k: type_of(v) for k, v in made.get_overridable_initializer_info().items()},
                  "metadata": [metadata.producer_name, metadata.graph_name, metadata.domain, metadata.description, metadata.graph_description,
                               metadata.version, metadata.custom_metadata_map, metadata.lookup_custom_metadata("nothing")]}


def float32(*shape):
    return ortpy.Value(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 3)


def runs(folder):
    feeds = {"add": {"x": float32(2, 4), "y": float32(2, 4)}, "two_outputs": {"x": float32(2, 3)}, "overridable": {"x": float32(2, 4)},
             "scalar": {"x": ortpy.Value(np.array(3, np.float32))}, "nonzero": {"x": float32(5)}, "denoted": {"x": float32(1, 3, 2)},
             "strings": {"x": ortpy.Value.from_strings(["a", "", "\u00e9\u4e2d"], [3])}, "matmul": {"x": float32(2, 8)},
             "odd_no_shapes": {"x": float32(2, 4)}, "names_add": {"x": float32(2, 2), "y": float32(2, 2)}}
    seen = {}
    for name, feed in feeds.items():
        made, about = session(folder, name)
        outputs = list(made.get_output_info())
        about["run"] = {k: value_of(v) for k, v in attempt(lambda made=made, feed=feed, outputs=outputs: made.run_with_ort_values(feed, outputs)).items()}
        binding = made.create_io_binding()
        for key, value in feed.items():
            binding.bind_input(key, value)
        for output in outputs:
            binding.bind_output_to_device(output, ortpy.MemoryInfo())
        made.run_with_binding(binding)
        about["bound"] = {k: value_of(v) for k, v in binding.get_outputs().items()}
        about["refused"] = [attempt(lambda made=made, feed=feed: made.run_with_ort_values(feed, ["nothing"])), attempt(lambda made=made, outputs=outputs: made.run_with_ort_values({}, outputs)),
                            attempt(lambda made=made, outputs=outputs: made.run_with_ort_values({"x": ortpy.Value(np.zeros(1, np.int8))}, outputs))]
        seen[name] = about
    return seen


def settings():
    made = options()
    made.add_session_config_entry("my.key", "1")
    made.add_free_dimension_override_by_name("N", 2)
    copy = made.clone()
    run = ortpy.RunOptions()
    run.run_tag, run.run_log_severity_level = "tag", 3
    run.add_run_config_entry("a", "b")
    return {"entries": copy.get_session_config_entries(), "has": [copy.has_session_config_entry("my.key"), copy.has_session_config_entry("no")],
            "missing": attempt(lambda: copy.get_session_config_entry("no")), "run": [run.run_tag, run.run_log_severity_level, run.get_run_config_entry("a"),
                                                                                  run.get_run_config_entry("none")],
            "provider": [attempt(lambda name=name: copy.append_execution_provider(name, {})) for name in ("CUDA", "nothing")],
            "library": attempt(lambda: copy.register_custom_ops_library_v2("missing.so")),
            "devices": [[one.ep_name, str(one.device.type)] for one in ortpy.get_ep_devices()]}


folder = pathlib.Path(sys.argv[1])
print(json.dumps({"runs": runs(folder), "settings": settings(), "libraries": loaded.libraries()}))
