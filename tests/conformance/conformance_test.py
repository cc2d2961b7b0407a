"""The importer suite (S1.7) in every host that is there, with every EP that is there.

TENON_ORT_LIBRARIES: more stock hosts than the onnxruntime package of this Python, as paths with ':' between them.
TENON_EP_PLUGINS: more plugins than the simulated one, as NAME=LIBRARY with ':' between them.
"""
import json
import os
import pathlib
import subprocess

import pytest

SUITE = os.environ["TENON_SUITE"]
TENON_LIBRARY = os.environ["TENON_LIBRARY"]
SIM = os.environ["TENON_SIM_PLUGIN"]
CLI = os.environ["TENON_CLI"]
THE_EIGHT = ["CreateExternalResourceImporter", "CanImportMemoryCapabilities", "CanImportSemaphoreCapabilities",
             "ImportSharedResource", "CreateTensorFromImportedMemory", "ImportFence", "WaitAndSignalSemaphore",
             "FullInferenceWithExternalMemory"]


def stock_hosts():
    paths = [path for path in os.environ.get("TENON_ORT_LIBRARIES", "").split(":") if path]
    try:
        import onnxruntime
        folder = pathlib.Path(onnxruntime.__file__).parent / "capi"
        paths += [str(path) for path in folder.glob("libonnxruntime.so.*")]
    except ImportError:
        pass
    return sorted(set(paths))


def plugins():
    return [text for text in os.environ.get("TENON_EP_PLUGINS", "").split(":") if text]


def run(host, *arguments):
    return subprocess.run([SUITE, host, *arguments], capture_output=True, text=True, timeout=600)


def verdicts(output):
    words = [line.split() for line in output.splitlines()]
    return {line[2]: line[0] for line in words if len(line) > 2 and line[0] in ("passed", "failed", "skipped")}


# S1.7, S1.1: all of it, in our host and in stock ones.
@pytest.mark.parametrize("host", [TENON_LIBRARY, *stock_hosts()], ids=os.path.basename)
def test_the_simulated_ep_conforms(host):
    done = run(host, "--plugin", f"sim={SIM}")
    assert done.returncode == 0, done.stdout + done.stderr
    found = verdicts(done.stdout)
    assert [name for name in THE_EIGHT if found.get(name) != "passed"] == []
    assert found["EveryStepMayFail"] == "passed"


# S1.7: the CPU device has an importer in our host.
def test_the_cpu_ep_conforms_in_our_host():
    done = run(TENON_LIBRARY, "--ep", "CPUExecutionProvider")
    assert done.returncode == 0, done.stdout + done.stderr
    found = verdicts(done.stdout)
    assert [name for name in THE_EIGHT if found.get(name) != "passed"] == []


# S1.1: an EP without an importer: null and success, in stock hosts too.
@pytest.mark.parametrize("host", stock_hosts(), ids=os.path.basename)
def test_an_ep_without_an_importer_gives_null_and_success(host):
    done = run(host, "--ep", "CPUExecutionProvider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdicts(done.stdout)["CreateExternalResourceImporter"] == "passed"
    assert "null, with success" in done.stdout


@pytest.mark.parametrize("plugin", plugins(), ids=lambda text: text.split("=")[0])
def test_other_vendors_plugins_in_our_host(plugin):
    done = run(TENON_LIBRARY, "--plugin", plugin)
    if done.returncode == 2 and "No device of EP" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_prints_what_is_right_and_wrong():
    done = subprocess.run([CLI, "conformance", "--plugin", f"sim={SIM}", "--json"], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["ep_name"] == "TenonSimExecutionProvider" and report["has_importer"] and report["passed"]
    assert "mappable_fd" in report["memory_kinds"]
    assert {check["name"] for check in report["checks"]} >= set(THE_EIGHT)


def test_the_command_refuses_what_is_no_plugin():
    done = subprocess.run([CLI, "conformance", "--plugin", "sim=/does/not/exist.so"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode != 0 and "/does/not/exist.so" in done.stderr and done.stdout == ""
    done = subprocess.run([CLI, "conformance", "--plugin", "sim"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "NAME=LIBRARY" in done.stderr
