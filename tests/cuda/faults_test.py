"""Faults over the fake driver, in our host and in stock ones: every call of the driver fails in its turn, fences come
late or never, and the process ends all the same."""
import os
import pathlib
import subprocess

import pytest

from hosts import host_libraries, leave_waiting

FAKE = pathlib.Path(os.environ["TENON_FAKE_CUDA"])
FAKE_PLUGIN = FAKE / "libtenon_ep_cuda_fake.so"


ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=f"{FAKE}:{os.environ.get('LD_LIBRARY_PATH', '')}")


def run(program, host, *arguments):
    return subprocess.run([os.environ[program], host, FAKE_PLUGIN, *arguments], capture_output=True, text=True,
                          timeout=300, env=ENVIRONMENT)


hosts = pytest.mark.parametrize("host", host_libraries(), ids=os.path.basename)


# A status that names the call, nothing left over, and a session that goes on.
@hosts
def test_every_call_of_the_driver_may_fail(host):
    done = run("TENON_FAULT_WALK", host)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


# A deadline ends the run; other sessions, the process and whoever signals late go on.
@hosts
def test_a_fence_that_nobody_signals_hangs_nobody(host):
    done = run("TENON_LATE_FENCES", host)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.count("the run ends at its deadline") == 4


# A library unloads code in its exit handler, for which the driver waits as long as a stream does.
@hosts
def test_a_process_ends_though_a_stream_waits_for_ever(host):
    done = run("TENON_EXITS", host, os.environ["TENON_UNLOADING"])
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "waits for value 2 of the" in done.stderr and "ends with status 3" in done.stderr


@hosts
def test_python_ends_with_its_status_though_a_stream_waits_for_ever(host):
    done = leave_waiting(host, FAKE_PLUGIN, vulkan=False, environment=ENVIRONMENT)
    assert done.returncode == 3, done.stdout + done.stderr[-2000:]
    assert "ends with status 3" in done.stderr
