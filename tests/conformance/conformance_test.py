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
BAD = os.environ["TENON_BAD_LIBRARY"]  # tests/plugins_host/bad_plugin.cc
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


# Faults of other vendors' plugins, which the suite finds in onnxruntime 1.31.1 and 1.32.0 too.
KNOWN_FINDINGS = {"nxrt": ["HostObjectsAreReleased"]}


@pytest.mark.parametrize("plugin", plugins(), ids=lambda text: text.split("=")[0])
def test_other_vendors_plugins_in_our_host(plugin):
    done = run(TENON_LIBRARY, "--plugin", plugin)
    if done.returncode == 2 and "No device of EP" in done.stdout:
        pytest.skip(done.stdout.strip())
    failed = [name for name, verdict in verdicts(done.stdout).items() if verdict == "failed"]
    assert failed == KNOWN_FINDINGS.get(plugin.split("=")[0], []), done.stdout + done.stderr
    assert done.returncode == (1 if failed else 0), done.stdout + done.stderr


def test_the_command_prints_what_is_right_and_wrong():
    done = subprocess.run([CLI, "conformance", "--plugin", f"sim={SIM}", "--json"], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["ep_name"] == "TenonSimExecutionProvider" and report["has_importer"] and report["passed"]
    assert "mappable_fd" in report["memory_kinds"]
    assert {check["name"] for check in report["checks"]} >= set(THE_EIGHT)


def conformance(plugin, *arguments, **environment):
    done = subprocess.run([CLI, "conformance", "--json", "--plugin", plugin, *arguments], capture_output=True, text=True, timeout=600,
                          env={**os.environ, **environment})
    report = json.loads(done.stdout)
    assert report["passed"] == (done.returncode == 0), done.stdout
    return {check["name"]: check for check in report["checks"]}


MODELS = ["KernelsKeepToTheirTensors", "SmallModelAgreesWithTheCpu", "SmallModelOfAnyBatchAgrees"]


# The faulty EP without a fault: so that the faults below are what the checks find.
def test_small_models_run_on_the_ep_and_agree():
    checks = conformance(f"bad={BAD}")
    assert [checks[name]["verdict"] for name in [*MODELS, "HostObjectsAreReleased"]] == ["passed"] * 4
    assert checks["SmallModelAgreesWithTheCpu"]["notes"] == ["The EP runs Relu."]


@pytest.mark.parametrize("fault,name,says", [
    ("wrong values", "SmallModelAgreesWithTheCpu", 'Run 1 of [4,8]: element 0 of "y" is'),
    ("wrong values", "SmallModelOfAnyBatchAgrees", 'Run 1 of [4,8]: element 0 of "y" is'),
    ("wrong values", "KernelsKeepToTheirTensors", 'element 1 of "y" is 1.4375 instead of 0.4375'),
    ("writes past the end", "KernelsKeepToTheirTensors", 'writes behind its output "y", at byte 60 of 60'),
    ("another shape", "SmallModelAgreesWithTheCpu", 'Output 0 ("r" of Relu "relu") has the shape [4,8] in the model'),
    ("fail Compute", "SmallModelAgreesWithTheCpu", "the plugin cannot"),
    ("leaks shapes", "HostObjectsAreReleased",
     "3 OrtTensorTypeAndShapeInfo not released (made by GetTensorTypeAndShape), after SmallModelAgreesWithTheCpu"),
])
def test_a_fault_fails_its_check(fault, name, says):
    check = conformance(f"bad={BAD}", TENON_BAD_PLUGIN=fault)[name]
    assert check["verdict"] == "failed" and says in "\n".join(check["failures"]), check


# Tenon refuses a descriptor beyond the memory before the plugin sees it; the plugin's own importer is asked too.
def test_the_plugins_own_bounds_are_checked_in_tenon():
    checks = conformance(f"bad={BAD}", TENON_BAD_PLUGIN_DEVICE="1")
    failures = checks["ImportRefusesBadDescriptors"]["failures"]
    assert "ImportMemory with size 0 (host_allocation, the plugin's own importer): OK instead of INVALID_ARGUMENT." in failures
    assert not any("size 0 (host_allocation)" in text for text in failures)
    assert checks["TensorsRefuseBadDescriptors"]["verdict"] == "failed"
    failures = checks["SemaphoresRefuseBadDescriptors"]["failures"]
    assert any("version 1000 (host_callbacks), the plugin's own importer: OK instead of" in text for text in failures), failures


def test_the_command_says_what_it_covers_and_hints_at_the_other_host():
    own = subprocess.run([CLI, "conformance", "--plugin", f"bad={BAD}"], capture_output=True, text=True, timeout=600).stdout
    assert "Checked:\n   3  sessions: small models" in own and "\nNot checked: other operators and types" in own
    assert "--host libonnxruntime.so" in own.splitlines()[-1]
    stock = stock_hosts()
    if stock:
        other = subprocess.run([CLI, "conformance", "--plugin", f"sim={SIM}", "--host", stock[-1], "--filter", "Small"],
                               capture_output=True, text=True, timeout=600).stdout
        assert "Run it in Tenon too, without --host" in other.splitlines()[-1]
        assert "sessions" in other and "importer:" not in other


# Objects are counted in stock hosts too: between the host and the plugin, not in the host.
@pytest.mark.parametrize("host", stock_hosts(), ids=os.path.basename)
def test_host_objects_are_counted_in_stock_hosts(host):
    check = conformance(f"sim={SIM}", "--host", host, "--filter", "Small")["HostObjectsAreReleased"]
    assert check["verdict"] == "passed", check


def test_the_command_refuses_what_is_no_plugin():
    done = subprocess.run([CLI, "conformance", "--plugin", "sim=/does/not/exist.so"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode != 0 and "/does/not/exist.so" in done.stderr and done.stdout == ""
    done = subprocess.run([CLI, "conformance", "--plugin", "sim"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "NAME=LIBRARY" in done.stderr
