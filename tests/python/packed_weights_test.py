"""Packed weights in a folder: processes that have one map the same memory, and run all the same where they cannot."""
import json
import os
import pickle
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import tenon
from onnx import numpy_helper

import models

SIZE, LAYERS = 1024, 4
WEIGHTS = LAYERS * SIZE * SIZE * 4
KEY = "tenon.packed_weights_folder"

# Makes a session of MODEL with OPTIONS (json), runs it, says what it has, and ends with its standard input.
PROGRAM = r"""
import json, os, re, sys, time
import numpy as np
import tenon

def own_bytes():
    fields = dict(re.findall(r"^(\w+): +(\d+) kB", open("/proc/self/smaps_rollup").read(), re.M))
    return 1024 * int(fields["Pss"])

options = tenon.SessionOptions()
options.intra_op_num_threads = 2
for key, value in json.loads(sys.argv[2]).items():
    options.add_session_config_entry(key, value)
before = own_bytes()
session = tenon.InferenceSession(sys.argv[1], options)
y = session.run(None, {"x": np.ones((64, session.get_inputs()[0].shape[1]), np.float32)})[0]
folder = options.get_session_config_entry("tenon.packed_weights_folder") if len(sys.argv[2]) > 2 else "none"
maps = [line.split() for line in open("/proc/self/maps") if folder in line]
while True:
    said = {"y": y[0, :4].tolist(), "inodes": sorted({int(line[4]) for line in maps}), "modes": sorted({line[1] for line in maps}),
            "own": own_bytes() - before}
    print(json.dumps(said), flush=True)
    if not sys.stdin.readline():
        break
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    random = np.random.default_rng(0)
    nodes = [models.helper.make_node("MatMul", ["x" if i == 0 else f"t{i - 1}", f"w{i}"], ["y" if i == LAYERS - 1 else f"t{i}"])
             for i in range(LAYERS)]
    weights = [numpy_helper.from_array(random.standard_normal((SIZE, SIZE), np.float32) / 32, f"w{i}") for i in range(LAYERS)]
    made = models.model(nodes, [models.value("x", models.FLOAT, ["n", SIZE])], [models.value("y", models.FLOAT, ["n", SIZE])], weights)
    path = tmp_path_factory.mktemp("packed") / "m.onnx"
    path.write_bytes(made.SerializeToString())
    return str(path)


class Process:
    def __init__(self, model, **options):
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM, model, json.dumps(options)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def says(self):
        return json.loads(self.process.stdout.readline())

    def asked_again(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.says()

    def ends(self):
        """What it has written to standard error"""
        _, errors = self.process.communicate()
        assert self.process.returncode == 0, errors
        return errors


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "packed")


def alone(model, **options):
    process = Process(model, **options)
    said = process.says()
    return said, process.ends()


def test_processes_map_the_same_files_read_only(model, folder):
    processes = [Process(model, **{KEY: folder}) for _ in range(4)]
    said = [process.says() for process in processes]
    assert len(os.listdir(folder)) == LAYERS + 1  # and the lock
    said = [process.asked_again() for process in processes]
    assert {tuple(one["inodes"]) for one in said} == {tuple(sorted(os.stat(os.path.join(folder, name)).st_ino
                                                                   for name in os.listdir(folder) if name != "lock"))}
    assert {tuple(one["modes"]) for one in said} == {("r--s",)}
    apart, _ = alone(model)
    assert apart["inodes"] == [] and all(one["y"] == apart["y"] for one in said)
    # Of the weights each has a fourth, and alone it has them all.
    assert apart["own"] > WEIGHTS
    assert all(one["own"] < apart["own"] - WEIGHTS // 2 for one in said), (said, apart)
    for process in processes:
        assert process.ends() == ""
    assert not os.path.exists(folder)


def test_a_damaged_file_is_written_again_with_a_warning(model, folder):
    keeper = Process(model, **{KEY: folder})
    expected = keeper.says()
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name != "lock")
    keeper.process.send_signal(signal.SIGKILL)
    keeper.process.wait()
    os.truncate(files[0], 1000)
    with open(files[1], "r+b") as file:
        file.seek(100_000)
        file.write(b"garbage")
    open(files[2], "wb").close()
    said, errors = alone(model, **{KEY: folder})
    assert said["y"] == expected["y"]
    assert sorted(re.findall(r'"([^"]*)" is damaged, and is written again', errors)) == files[:3]
    assert not os.path.exists(folder)


@pytest.mark.parametrize("make, reason", [
    (lambda folder: open(folder, "w").close(), "open"),
    (lambda folder: os.mkdir(folder, 0o700) or os.chmod(folder, 0o777), "others may write to it"),
    (lambda folder: os.mkdir(folder, 0o500), "Permission denied"),
], ids=["a file", "open to others", "read-only"])
def test_a_folder_that_cannot_be_used_is_a_warning(model, folder, make, reason):
    if reason == "Permission denied" and os.geteuid() == 0:
        pytest.skip("root may write to a read-only folder")
    make(folder)
    said, errors = alone(model, **{KEY: folder})
    assert said["inodes"] == []
    assert errors.count("packs its weights for itself") == 1 and f'"{folder}"' in errors and reason in errors, errors


def test_what_exceeds_the_limit_is_packed_for_the_session(model, folder):
    said, errors = alone(model, **{KEY: folder, "tenon.packed_weights_limit_mb": "9"})
    assert len(said["inodes"]) == 2
    assert errors.count("packs some of its weights for itself") == 1 and "exceed its limit of 9437184" in errors


def test_a_pickled_session_shares_too(model, folder):
    options = tenon.SessionOptions()
    options.add_session_config_entry(KEY, folder)
    x = np.ones((4, SIZE), np.float32)
    session = tenon.InferenceSession(model, options)
    expected = session.run(None, {"x": x})
    copy = pickle.loads(pickle.dumps(session))
    np.testing.assert_array_equal(copy.run(None, {"x": x}), expected)
    assert len(os.listdir(folder)) == LAYERS + 1
    del session, copy
    assert not os.path.exists(folder)


def test_a_value_that_is_no_number_is_an_error():
    with pytest.raises(tenon.InvalidArgument, match="takes a whole number from 0 on"):
        tenon.SessionOptions().add_session_config_entry("tenon.packed_weights_limit_mb", "much")


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", *sys.argv[1:]]))
