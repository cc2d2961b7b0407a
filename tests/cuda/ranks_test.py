"""A decoder that is divided among two devices generates the tokens of one device, and of ONNX Runtime's CPU EP: over the
fake driver with the fake NCCL, whose ranks are threads, and on two GPUs."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKE = pathlib.Path(os.environ["TENON_FAKE_CUDA"])
sys.path.insert(0, str(ROOT / "bench"))
import decoder_model  # noqa: E402
import gpu_ranks  # noqa: E402


def run_ranks(plugin, *arguments, **environment):
    return subprocess.run([sys.executable, ROOT / "bench" / "gpu_ranks.py", "--worker", os.environ["TENON_GPU_WORKER"],
                           "--plugin", plugin, "--library", os.environ["TENON_LIBRARY"], "--small", *arguments],
                          capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


def rows_of(done):
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def tokens_of_the_cpu(past, count):
    model = decoder_model.greedy(decoder_model.model(past, 1, "f32", 1, sizes=gpu_ranks.SMALL))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
    feeds = {value.name: np.zeros(value.shape, types[value.type]) for value in session.get_inputs()}
    feeds["input_ids"][:] = feeds["tokens"][0, 0] = gpu_ranks.FIRST_TOKEN
    feeds["length"][:] = 1
    for _ in range(count):
        for value, result in zip(session.get_outputs(), session.run(None, feeds)):
            name = value.name.replace("present.", "past_key_values.").removeprefix("next.")
            if name in feeds:
                feeds[name] = result
    return feeds["tokens"][0, :count + 1].tolist()


def test_two_ranks_of_the_fake_driver():
    done = run_ranks(FAKE / "libtenon_ep_cuda_host.so", "--fake-devices", "2", "--kinds", "f32,f16", "--ways", "threads",
                     "--tokens", "5", "--past", "15", LD_LIBRARY_PATH=f"{FAKE}:{os.environ.get('LD_LIBRARY_PATH', '')}")
    for row in rows_of(done):
        assert row["tokens_equal"] == {"threads": True}
        assert row["tokens"] == tokens_of_the_cpu(15, 5)


def answers(models, folder, *options, commands=""):
    """Of a worker over the fake driver, with a session for each model."""
    for rank, model in enumerate(models):
        (folder / f"model{rank}.onnx").write_bytes(model.SerializeToString())
    options = [part for option in options for part in ("--option", option)]
    devices = ["--fake-devices", str(len(models)), "--devices", ",".join(map(str, range(len(models))))]
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{FAKE}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        environment.pop(name, None)
    done = subprocess.run([os.environ["TENON_GPU_WORKER"], "--library", os.environ["TENON_LIBRARY"], "--model",
                           folder / "model{}.onnx", *devices, "--ep", "TenonCudaExecutionProvider", "--plugin", FAKE / "libtenon_ep_cuda_host.so", *options],
                          input=commands, capture_output=True, text=True, timeout=120, env=environment)
    return [json.loads(line) for line in done.stdout.splitlines()]


def fails(*arguments, **commands):
    return answers(*arguments, **commands)[-1]["error"]


def part(ranks, rank=0):
    return decoder_model.model(7, 1, "f32", 1, rank, ranks, gpu_ranks.SMALL)


def two_ranks(folder, timeout_ms):
    return "collective_world_size=2", f"collective_rendezvous={folder}/place", f"collective_timeout_ms={timeout_ms}"


def test_a_model_of_other_ranks_is_refused_with_both_numbers(tmp_path):
    error = fails([part(2)], tmp_path, "collective_rank=0", "collective_world_size=3", "collective_rendezvous=/nowhere")
    assert "group_size 2, and there are 3 ranks" in error and "rank 0 of 3" in error
    assert "group_size 2, and there is 1 rank" in fails([part(2)], tmp_path, "collective_world_size=1")


def test_a_session_that_no_rank_is_told_of_is_refused(tmp_path):
    error = fails([part(2)], tmp_path)
    assert "layer0.out" in error and "nothing says how many" in error and "collective_world_size" in error


# A rank that does not come ends the run with its number and the time, and the process ends.
def test_a_missing_rank_is_named(tmp_path):
    error = fails([part(2)], tmp_path, "collective_rank=0", *two_ranks(tmp_path, 500), commands=f"bind {tmp_path}\nrun 1\n")
    assert "Rank 1 of 2 has not come to" in error and "0.5 s" in error


# Nor does one that has come, and does not run. The first runs compile the fake driver's kernels, which takes seconds.
def test_a_rank_that_takes_no_part_is_named(tmp_path):
    commands = ("run 3", "try 0", "try 0", "release 0", "release 1")
    _, _, _, first, second, *released = answers([part(2), part(2, 1)], tmp_path, "collective_rank={}", *two_ranks(tmp_path, 10000),
                                                commands="\n".join([f"bind {tmp_path}", *commands, ""]))
    assert "not done after 10000 ms (option collective_timeout_ms)" in first["failed"]
    assert "as rank 0 of 2: rank 1 may not have taken part" in first["failed"]
    assert "given up" in second["failed"] and "not done after 10000 ms" in second["failed"]
    assert all(one["release_s"] < 3 for one in released)


def test_two_gpus():
    done = run_ranks(os.environ["TENON_CUDA_PLUGIN"], "--kinds", "f32", "--tokens", "11", "--past", "31")
    if "no device" in done.stderr:
        pytest.skip(f"this machine has no two GPUs: {done.stderr.strip()[-200:]}")
    for row in rows_of(done):
        assert row["tokens_equal"] == {"threads": True, "processes": True}
        assert row["tokens"] == tokens_of_the_cpu(31, 11)
