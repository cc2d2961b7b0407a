"""Runs many small models in stock onnxruntime with the CUDA plugin, in a process of its own, and reads what came back.

As a program: hosts.py CASES RESULTS [--plugin LIBRARY [KEY=VALUE]...], both files pickles; without --plugin on the CPU
EP alone. It goes on after a failure; where the process dies, the parent starts another one behind the case."""
import os
import pathlib
import pickle
import subprocess
import sys

EP = "TenonCudaExecutionProvider"


def host_libraries():
    """Our host, and this Python's onnxruntime where it has one."""
    try:
        import onnxruntime
    except ImportError:
        return [os.environ["TENON_LIBRARY"]]
    stock = (pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    return [os.environ["TENON_LIBRARY"], *map(str, stock)]


def run_in_onnxruntime(cases, folder, plugin=None, options=(), environment=None, python=sys.executable):
    """{case name: (status, outputs, {EP: operators})} of cases with name, model (bytes) and inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    outcomes, left = {}, [(case.name, case.model, case.inputs) for case in cases]
    while left:
        asked, results = folder / "asked", folder / "results"
        asked.write_bytes(pickle.dumps(left))
        results.unlink(missing_ok=True)
        command = [python, __file__, asked, results]
        if plugin is not None:
            command += ["--plugin", plugin, *options]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                              env={**os.environ, "ALLOW_RELEASED_ONNX_OPSET_ONLY": "0", **(environment or {})})
        assert results.exists(), done.stderr
        read = {}
        with open(results, "rb") as file:
            while True:
                try:
                    name, *outcome = pickle.load(file)
                except EOFError:
                    break
                read[name] = tuple(outcome)
        outcomes |= read
        left = left[len(read):]
        if left:
            assert done.returncode != 0 and "cannot offer" not in done.stderr, done.stderr
            outcomes[left[0][0]] = ("crashed: " + done.stderr[-2000:], [], {})
            left = left[1:]
    return outcomes


# sys.exit(3) while a stream waits for what nobody signals.
LEAVE = """
import ctypes, sys
module, host, plugin, unloading, vulkan = sys.argv[1:]
if ctypes.CDLL(module).tenon_leave_waiting(host.encode(), plugin.encode(), unloading.encode(), int(vulkan)) != 0:
    sys.exit(1)
sys.exit(3)
"""


def leave_waiting(host, plugin, vulkan, before="", environment=None):
    """A program in Python that does so; `before` comes first in it."""
    arguments = [os.environ["TENON_LEAVE_WAITING"], host, plugin, os.environ["TENON_UNLOADING"], int(vulkan)]
    return subprocess.run([sys.executable, "-c", before + LEAVE, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, env=environment)


def main():
    import onnxruntime
    asked, results, *rest = sys.argv[1:]
    onnxruntime.set_default_logger_severity(4)
    devices, options = [], {}
    if rest:
        onnxruntime.register_execution_provider_library("tenon_cuda", rest[1])
        devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == EP][:1]
        options = dict(option.split("=", 1) for option in rest[2:])
        if not devices:
            raise SystemExit("The plugin cannot offer a device.")
    with open(results, "wb") as file:
        for name, model, inputs in pickle.loads(open(asked, "rb").read()):
            claimed, outputs = {}, []
            try:
                chosen = onnxruntime.SessionOptions()
                chosen.log_severity_level = 4
                chosen.intra_op_num_threads = 1
                chosen.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
                # What the model says is what is tested: nothing is folded or fused before the EP sees it.
                chosen.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
                if devices:
                    chosen.add_provider_for_devices(devices, options)
                session = onnxruntime.InferenceSession(model, chosen)
                for part in session.get_provider_graph_assignment_info():
                    claimed.setdefault(part.ep_name, []).extend(node.op_type for node in part.get_nodes())
                outputs = session.run(None, inputs)
                status = "ok"
            except Exception as error:  # noqa: BLE001 - whatever the host throws is the case's outcome
                status = f"{type(error).__name__}: {error}"
            pickle.dump((name, status, outputs, claimed), file)
            file.flush()


if __name__ == "__main__":
    main()
