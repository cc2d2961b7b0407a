"""Several devices in one process: two of the fake driver, and two GPUs where the machine has them."""
import os
import pathlib
import subprocess

import pytest

from hosts import host_libraries

FAKE = pathlib.Path(os.environ["TENON_FAKE_CUDA"])


hosts = pytest.mark.parametrize("host", host_libraries(), ids=os.path.basename)


# Each by its own device_id, memory of one for a session on the other, importers, both at once from 16 threads.
@hosts
def test_two_devices_of_the_fake_driver(host):
    environment = dict(os.environ, LD_LIBRARY_PATH=f"{FAKE}:{os.environ.get('LD_LIBRARY_PATH', '')}")
    done = subprocess.run([os.environ["TENON_DEVICES"], host, FAKE / "libtenon_ep_cuda_fake.so"], capture_output=True,
                          text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@hosts
def test_two_gpus(host):
    done = subprocess.run([os.environ["TENON_DEVICES"], host, os.environ["TENON_CUDA_PLUGIN"]], capture_output=True,
                          text=True, timeout=300)
    if done.returncode == 77 or "No device of EP" in done.stderr:
        pytest.skip(f"this machine has no two GPUs: {(done.stdout + done.stderr).strip()[-200:]}")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


# S3.2, S6.1: an output over an input, another GPU's memory: what is copied is counted, with its reason.
def test_copies_of_bound_memory_over_the_fake_driver():
    environment = dict(os.environ, LD_LIBRARY_PATH=f"{FAKE}:{os.environ.get('LD_LIBRARY_PATH', '')}")
    done = subprocess.run([os.environ["TENON_BOUND_MEMORY"], FAKE / "libtenon_ep_cuda_fake.so", "--fake"],
                          capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "one device only" not in done.stdout
    assert "CUDA copies" not in done.stdout + done.stderr


def test_copies_of_bound_memory():
    done = subprocess.run([os.environ["TENON_BOUND_MEMORY"], os.environ["TENON_CUDA_PLUGIN"]], capture_output=True,
                          text=True, timeout=300)
    if "offers no device" in done.stdout + done.stderr:
        pytest.skip(f"this machine has no GPU: {(done.stdout + done.stderr).strip()[-200:]}")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "CUDA copies" not in done.stdout + done.stderr
