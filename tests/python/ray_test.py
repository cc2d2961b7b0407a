"""tenon.ray on a local cluster of two raylets, each with an object store of its own: where models and batches lie, rows that
are returned once whatever dies, what an actor gets of its node, Serve. `./dev ray` installs Ray and runs this."""
import ctypes
import json
import os
import pathlib
import re
import signal
import socket
import sys
import threading
import time
import urllib.request

import models
import numpy as np
import pytest
from models import FLOAT, INT64, helper, numpy_helper, value

ray = pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import ray.cloudpickle
import ray.data
import tenon
import tenon.ray
from onnx import save
from ray.cluster_utils import Cluster

# Workers do not have this file on their path.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
ray.cloudpickle.register_pickle_by_value(models)

STORE = 200 << 20
COLUMNS = 4
TABLE_ROWS = 2_000_000  # 32 MB, which private memory would show


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "object_store_memory": STORE, "resources": {"left": 9}})
    cluster.add_node(num_cpus=3, object_store_memory=STORE, resources={"right": 9})
    ray.init(address=cluster.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    tenon.ray._remove_folders_without_users()


def lookup():
    """y = w[x]: rows of a table with counting numbers"""
    weights = numpy_helper.from_array(np.arange(TABLE_ROWS * COLUMNS, dtype=np.float32).reshape(-1, COLUMNS), "w")
    return models.model([helper.make_node("Gather", ["w", "x"], ["y"])], [value("x", INT64, ["n"])],
                        [value("y", FLOAT, ["n", COLUMNS])], [weights])


def relu():
    """What a plan that may write its input would do in place."""
    return models.one_node("Relu", FLOAT, ("n", COLUMNS))


def in_store(address):
    """(inode, offset) of an address within the mapping of a plasma store; None outside of one"""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        span, _, offset, _, inode, *path = line.split()
        begin, end = (int(part, 16) for part in span.split("-"))
        if begin <= address < end:
            return (int(inode), int(offset, 16) + address - begin) if path and "plasma" in path[0] else None
    return None


def private_bytes():
    for line in pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty"):
            return 1024 * int(line.split()[1])


# Models in the store.


@ray.remote
class Holder:
    def __init__(self, model):
        before = private_bytes()
        self.parts = model.parts()
        self.session = self.parts.session()
        self.look(0)
        self.grown = private_bytes() - before

    def look(self, row):
        return self.session.run(None, {"x": np.array([row])})[0][0].tolist()

    def places(self):
        return [(in_store(part.data.ctypes.data), part.data.ctypes.data % 64, part.data.flags.writeable) for part in self.parts.tensors]

    def memory(self):
        return self.grown

    def write(self, row, number):
        """Past numpy, into the store itself."""
        ctypes.c_float.from_address(self.parts.tensors[0].data.ctypes.data + 4 * COLUMNS * row).value = number


@pytest.mark.parametrize("external", [False, True], ids=["one file", "external data"])
def test_actors_run_a_models_weights_in_their_nodes_store(cluster, tmp_path, external):
    save(lookup(), str(tmp_path / "m.onnx"), save_as_external_data=external, location="w.bin")
    model = tenon.ray.put_model(tmp_path / "m.onnx")
    assert model.size_bytes > 4 * TABLE_ROWS * COLUMNS
    for file in tmp_path.iterdir():  # the store has all of it
        file.unlink()
    actors = {name: [Holder.options(num_cpus=0, resources={name: 1}).remote(model) for _ in range(2)] for name in ("left", "right")}
    places = {name: ray.get([actor.places.remote() for actor in pair]) for name, pair in actors.items()}
    for first, second in places.values():
        (place, misalignment, writeable), = first
        assert place is not None and misalignment == 0 and not writeable
        assert first == second  # the same page of the same file: one copy a node
    assert places["left"][0][0][0][0] != places["right"][0][0][0][0]
    for pair in actors.values():
        assert max(ray.get([actor.memory.remote() for actor in pair])) < 4 << 20
    # No session has a copy: what is written into a node's store all of its actors see, and those of the other node do not.
    ray.get(actors["right"][0].write.remote(5, 7.5))
    assert [ray.get(actor.look.remote(5))[0] for actor in (*actors["right"], *actors["left"])] == [7.5, 7.5, 20, 20]
    assert ray.get(actors["right"][1].look.remote(TABLE_ROWS - 1)) == [4.0 * (TABLE_ROWS - 1) + i for i in range(COLUMNS)]


SIZE, LAYERS = 1024, 4
PACKED = LAYERS * SIZE * SIZE * 4


def products():
    """Products with four matrices, which kernels pack"""
    random = np.random.default_rng(0)
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"t{i - 1}", f"w{i}"], ["y" if i == LAYERS - 1 else f"t{i}"])
             for i in range(LAYERS)]
    weights = [numpy_helper.from_array(random.standard_normal((SIZE, SIZE), np.float32) / 32, f"w{i}") for i in range(LAYERS)]
    return models.model(nodes, [value("x", FLOAT, ["n", SIZE])], [value("y", FLOAT, ["n", SIZE])], weights).SerializeToString()


@ray.remote
class Packer:
    """A predictor, and what its process has of packed weights"""

    def __init__(self, model, **entries):
        options = tenon.SessionOptions()
        for key, entry in entries.items():
            options.add_session_config_entry(key, entry)
        self.before = private_bytes()
        self.predictor = tenon.ray.Predictor(model, sess_options=options, warm_up={"x": [64, SIZE]})

    def files(self):
        """Inode and path of each mapped file of packed weights"""
        maps = [line.split() for line in pathlib.Path("/proc/self/maps").read_text().splitlines()]
        return sorted((int(line[4]), line[5]) for line in maps if line[5:] and line[5].endswith(".packed"))

    def memory(self):
        """Since the constructor: pages of a file are private until a second process has them, so not measured there"""
        return private_bytes() - self.before

    def predict(self, x):
        return self.predictor({"x": x})["y"]


def test_actors_of_a_node_have_one_copy_of_packed_weights(cluster):
    model = tenon.ray.put_model(products())

    def start(node, **entries):
        return Packer.options(num_cpus=0, resources={node: 1}).remote(model, **entries)

    actors = {name: [start(name) for _ in range(2)] for name in ("left", "right")}
    files = {name: ray.get([actor.files.remote() for actor in pair]) for name, pair in actors.items()}
    for first, second in files.values():
        assert first == second and len(first) == LAYERS
    folders = {name: pathlib.Path(first[0][1]).parent for name, (first, _) in files.items()}
    assert folders["left"] != folders["right"] and all(str(folder).startswith("/dev/shm/tenon-") for folder in folders.values())
    for pair in actors.values():
        assert max(ray.get([actor.memory.remote() for actor in pair])) < PACKED // 2
    apart = start("left", **{"tenon.packed_weights_folder": ""})
    assert ray.get(apart.files.remote()) == [] and ray.get(apart.memory.remote()) > PACKED
    x = np.random.default_rng(1).standard_normal((64, SIZE), np.float32)
    results = ray.get([actor.predict.remote(x) for actor in (apart, *actors["left"], *actors["right"])])
    assert all(np.array_equal(result, results[0]) for result in results)
    # What killed actors leave the next one removes, on either node: both are on this machine.
    for actor in (apart, *actors["left"], *actors["right"]):
        ray.kill(actor)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        last = start("left")
        ray.get(last.files.remote())
        ray.kill(last)
        if not folders["right"].exists():
            break
    assert not folders["right"].exists()


def test_a_model_that_cannot_be_read_is_an_error_of_put_model(cluster):
    with pytest.raises(FileNotFoundError, match="none.onnx"):
        tenon.ray.put_model("none.onnx")
    with pytest.raises(tenon.InvalidProtobuf, match="broken"):
        tenon.ray.put_model(relu()[:-3])


# Batches.


class Probe(tenon.ray.Predictor):
    """Adds what the session saw to the results."""

    def _run(self, feed, rows):
        self.seen = in_store(feed["x"].ctypes.data)
        return super()._run(feed, rows)

    def __call__(self, batch):
        result = super().__call__(batch)
        count = result.num_rows if isinstance(result, pa.Table) else len(result["id"])
        extra = {"stored": np.full(count, self.seen is not None), "copied": np.full(count, self.counters.bytes_copied),
                 "runs": np.full(count, self.counters.runs)}
        if isinstance(result, pa.Table):
            for name, column in extra.items():
                result = result.append_column(name, pa.array(column))
            return result
        return {**result, **extra}


def numbers(rows, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, COLUMNS), np.float32)


def tables(form, rows=200_000, chunks=3):
    """A table of several chunks, with the tensors as Arrow or as Ray writes them"""
    from ray.data.extensions import ArrowTensorArray
    x = numbers(rows)
    parts = np.array_split(x, chunks)
    make = {"arrow": pa.FixedShapeTensorArray.from_numpy_ndarray, "ray": ArrowTensorArray.from_numpy}[form]
    return x, pa.table({"x": pa.chunked_array([make(part) for part in parts]), "id": pa.array(np.arange(rows))})


@pytest.mark.parametrize("form", ["arrow", "ray"])
def test_arrow_blocks_are_read_in_the_store_and_stay_as_they_are(cluster, form):
    x, table = tables(form)
    block = ray.put(table)
    before = [bytes(buffer) for chunk in ray.get(block)["x"].chunks for buffer in chunk.storage.buffers() if buffer is not None]
    done = ray.data.from_arrow_refs([block]).map_batches(
        Probe, fn_constructor_args=[relu()], fn_constructor_kwargs={"keep": ["id"]}, batch_format="pyarrow", batch_size=None,
        compute=ray.data.ActorPoolStrategy(size=1)).materialize()
    result = pa.concat_tables(ray.get(done.to_arrow_refs())).combine_chunks()
    assert set(result["stored"].to_pylist()) == {True} and set(result["copied"].to_pylist()) == {0}
    assert set(result["runs"].to_pylist()) == {3}  # a run a chunk
    assert result["id"].to_pylist() == list(range(len(x)))
    np.testing.assert_array_equal(np.concatenate([c.to_numpy() if form == "ray" else tenon.batches._arrow.rows_of(c, "y")[0]
                                                  for c in result["y"].chunks]), np.maximum(x, 0))
    after = [bytes(buffer) for chunk in ray.get(block)["x"].chunks for buffer in chunk.storage.buffers() if buffer is not None]
    assert before == after


def test_blocks_of_arrays_are_read_in_the_store(cluster):
    x = numbers(100_000)
    data = ray.data.from_numpy(x).map_batches(lambda batch: {"x": batch["data"], "id": np.arange(len(batch["data"]))}).materialize()
    done = data.map_batches(Probe, fn_constructor_args=[relu()], fn_constructor_kwargs={"keep": ["id"]}, batch_format="numpy",
                            batch_size=None, compute=ray.data.ActorPoolStrategy(size=1))
    result = done.take_batch(len(x))
    assert result["stored"].all() and not result["copied"].any()
    np.testing.assert_array_equal(result["y"][np.argsort(result["id"])], np.maximum(x, 0))


def test_a_stored_model_serves_a_dataset_on_both_nodes(cluster):
    model = tenon.ray.put_model(lookup().SerializeToString())
    data = ray.data.range(2000, override_num_blocks=8).map_batches(
        tenon.ray.Predictor, fn_constructor_args=[model], fn_constructor_kwargs={"inputs": {"x": "id"}, "keep": ["id"]},
        batch_size=100, compute=ray.data.ActorPoolStrategy(size=2))
    result = data.take_batch(2000)
    assert sorted(result["id"]) == list(range(2000))
    np.testing.assert_array_equal(result["y"][:, 1], 4.0 * result["id"] + 1)


def test_an_error_names_the_column(cluster):
    data = ray.data.range(10).map_batches(tenon.ray.Predictor, fn_constructor_args=[relu()],
                                          compute=ray.data.ActorPoolStrategy(size=1))
    with pytest.raises(ray.exceptions.RayError, match='input "x" reads the column "x", and the batch has "id"'):
        data.materialize()


# Deaths.


class Mortal(tenon.ray.Predictor):
    """Ends its process in the third batch, once in the life of `folder`; notes the node of each batch there."""

    def __init__(self, model, folder, kill, **arguments):
        super().__init__(model, **arguments)
        self.folder, self.kill, self.calls = pathlib.Path(folder), kill, 0

    def __call__(self, batch):
        self.calls += 1
        (self.folder / f"{ray.get_runtime_context().get_node_id()}-{os.getpid()}-{self.calls}").touch()
        time.sleep(0.05)
        if self.kill and self.calls == 3:
            try:
                (self.folder / "killed").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return super().__call__(batch)


def mortal(model, folder, kill, rows, **options):
    return ray.data.range(rows, override_num_blocks=20).map_batches(
        Mortal, fn_constructor_args=[model, str(folder), kill], fn_constructor_kwargs={"inputs": {"x": "id"}, "keep": ["id"]},
        batch_size=rows // 40, compute=ray.data.ActorPoolStrategy(size=2), **options)


def rows_once(data, rows):
    result = data.take_batch(2 * rows)
    assert np.array_equal(np.sort(result["id"]), np.arange(rows))
    np.testing.assert_array_equal(result["y"][:, 0], 4.0 * result["id"])


def test_rows_are_returned_once_when_an_actor_is_killed(cluster, tmp_path):
    model = tenon.ray.put_model(lookup().SerializeToString())
    rows_once(mortal(model, tmp_path, True, 4000), 4000)
    assert (tmp_path / "killed").exists()


def test_rows_are_returned_once_when_a_node_is_killed(cluster, tmp_path):
    doomed = cluster.add_node(num_cpus=2, object_store_memory=STORE, resources={"doomed": 9})
    cluster.wait_for_nodes()
    model = tenon.ray.put_model(lookup().SerializeToString())
    killed = threading.Event()

    def kill():
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if sum(file.name.startswith(doomed.node_id) for file in tmp_path.iterdir()) >= 2:
                cluster.remove_node(doomed, allow_graceful=False)
                killed.set()
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    # The actors of the first pool want to be on the node that dies, and find room elsewhere afterwards.
    doomed_first = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(doomed.node_id, soft=True)
    rows_once(mortal(model, tmp_path, False, 4000, scheduling_strategy=doomed_first), 4000)
    killer.join()
    assert killed.is_set()
    survivors = {file.name.split("-")[0] for file in tmp_path.iterdir()} - {doomed.node_id}
    assert survivors  # others have done the rest


# What an actor gets.


@ray.remote
class Plain:
    """A predictor in an actor of one's own"""

    def __init__(self, *arguments, **options):
        self.predictor = tenon.ray.Predictor(*arguments, **options)

    def threads(self):
        return self.predictor.session.get_session_options().intra_op_num_threads

    def providers(self):
        return self.predictor.session.get_providers(), self.predictor.session.get_provider_graph_assignment_info()

    def predict(self, batch):
        return self.predictor(batch)


@pytest.mark.parametrize("cpus, threads", [(0, 1), (0.5, 1), (1, 1), (2, 2), (2.5, 2)])
def test_threads_are_the_actors_cpus(cluster, cpus, threads):
    actor = Plain.options(num_cpus=cpus).remote(relu())
    assert ray.get(actor.threads.remote()) == threads
    ray.kill(actor)


def test_threads_that_are_asked_for_go_first(cluster):
    actor = Plain.options(num_cpus=1).remote(relu(), threads=3)
    assert ray.get(actor.threads.remote()) == 3
    ray.kill(actor)
    assert tenon.ray.Predictor(relu()).session.get_session_options().intra_op_num_threads == 0  # a driver has no share of CPUs


def test_a_gpu_without_a_plugin_is_an_error(cluster):
    node = cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=STORE)
    try:
        actor = Plain.options(num_gpus=1, num_cpus=0).remote(relu())
        with pytest.raises(ray.exceptions.RayActorError, match="has GPU 0, and there is no CUDA plugin here"):
            ray.get(actor.threads.remote())
        actor = Plain.options(num_gpus=1, num_cpus=0).remote(relu(), providers=["CPUExecutionProvider"])
        assert ray.get(actor.threads.remote()) == 1
        ray.kill(actor)
    finally:
        cluster.remove_node(node)


def test_an_actor_with_a_gpu_runs_there(cluster):
    """A GPU, or the build's fake driver in its place, which loads no kernels: TENON_CUDA_TEST_PLUGIN and _DRIVER name both."""
    plugin, driver = os.environ.get("TENON_CUDA_TEST_PLUGIN"), os.environ.get("TENON_CUDA_TEST_DRIVER")
    if not plugin or not driver:
        pytest.skip("TENON_CUDA_TEST_PLUGIN and TENON_CUDA_TEST_DRIVER name no CUDA plugin and no driver's folder")
    node = cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=STORE)
    try:
        options = tenon.SessionOptions()
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        actor = Plain.options(num_gpus=1, num_cpus=0, runtime_env={"env_vars": {"LD_LIBRARY_PATH": driver}}).remote(
            relu(), cuda_library=plugin, sess_options=options)
        providers, parts = ray.get(actor.providers.remote())
        assert providers[0] == "TenonCudaExecutionProvider"
        assert [part.ep_name for part in parts] == ["TenonCudaExecutionProvider"]
        if "fake" not in driver:
            x = numbers(8)
            np.testing.assert_array_equal(ray.get(actor.predict.remote({"x": x}))["y"], np.maximum(x, 0))
        ray.kill(actor)
    finally:
        cluster.remove_node(node)


def test_counters_reach_the_nodes_metrics(cluster, tmp_path):
    (tmp_path / "counted.onnx").write_bytes(relu())
    actor = Plain.options(num_cpus=0, resources={"left": 1}).remote(tmp_path / "counted.onnx")
    x = numbers(50)
    for _ in range(4):
        ray.get(actor.predict.remote({"x": x}))
    ray.get(actor.predict.remote({"x": np.asfortranarray(x)}))
    ports = [node["MetricsExportPort"] for node in ray.nodes() if node["Alive"] and "left" in node["Resources"]]
    wanted = {"ray_tenon_runs_total": 5, "ray_tenon_rows_total": 250, "ray_tenon_bytes_copied_total": x.nbytes}
    deadline, found = time.monotonic() + 60, {}
    while time.monotonic() < deadline and not all(found.get(name) == number for name, number in wanted.items()):
        time.sleep(1)
        text = urllib.request.urlopen(f"http://127.0.0.1:{ports[0]}/metrics", timeout=10).read().decode()
        mine = [line for line in text.splitlines() if line.startswith("ray_tenon_") and 'model="counted.onnx"' in line]
        found = {line.split("{")[0]: float(line.split()[-1]) for line in mine}
    assert {name: found.get(name) for name in wanted} == wanted
    assert 0 < found["ray_tenon_run_seconds_total"] < 60 and 0 < found["ray_tenon_queue_seconds_total"] < 60
    ray.kill(actor)


@ray.remote
def bars_of(model, after_seconds, slow):
    """What the bars of a predictor's constructor said: descriptions and counts"""
    from ray.experimental import tqdm_ray
    said = []

    class Bar:
        def __init__(self, desc, total, unit):
            said.append((desc, total))

        def update(self, count):
            said.append(count)

        def close(self):
            said.append("closed")

    tqdm_ray.tqdm, tenon.ray._BAR_AFTER_SECONDS = Bar, after_seconds
    parts = tenon.ray.StoredModel.parts

    def late_parts(self):
        while slow and len(said) < 2:  # the bar has come
            time.sleep(0.01)
        return parts(self)

    tenon.ray.StoredModel.parts = late_parts
    tenon.ray.Predictor(model)
    return said


def test_a_bar_shows_a_load_that_takes_long(cluster):
    model = tenon.ray.put_model(relu())
    assert ray.get(bars_of.remote(model, 0.2, True)) == [("Tenon loads a model of bytes", 3), 0, 1, 1, 1, "closed"]
    assert ray.get(bars_of.remote(model, 3600, False)) == []


# Serve.


def test_the_same_class_is_a_deployment(cluster):
    serve = pytest.importorskip("ray.serve")
    model = tenon.ray.put_model(lookup().SerializeToString())
    serve.start(http_options={"host": "127.0.0.1", "port": 0, "location": "NoServer"})
    try:
        deployment = serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 1})(tenon.ray.Predictor)
        handle = serve.run(deployment.bind(model), name="lookup", route_prefix=None)
        answers = [handle.remote({"x": np.array([i, i + 1])}) for i in range(20)]
        for i, answer in enumerate(answers):
            assert answer.result(timeout_s=60)["y"][:, 0].tolist() == [4.0 * i, 4.0 * (i + 1)]
    finally:
        serve.shutdown()


# The page.


def blocks_of_the_page():
    page = pathlib.Path(__file__).resolve().parents[2] / "docs/how-to/ray.md"
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.S | re.M)


def run_block(block, folder):
    """Runs an example with files of `folder`; workers have another working directory."""
    code = re.sub(r'"(model\.onnx|images|scores)"', lambda name: repr(str(folder / name[1])), block)
    names = {"__name__": "__main__"}
    exec(compile(code, "docs/how-to/ray.md", "exec"), names)
    return names


def test_the_pages_dataset_runs(cluster, tmp_path):
    (tmp_path / "model.onnx").write_bytes(models.one_node("Neg", FLOAT, ("n", 3, 8, 8)))
    x = np.random.default_rng(0).standard_normal((500, 3, 8, 8), np.float32)
    ray.data.from_arrow(pa.table({"id": np.arange(500), "image": pa.FixedShapeTensorArray.from_numpy_ndarray(x)})).write_parquet(
        str(tmp_path / "images"))
    run_block(blocks_of_the_page()[0], tmp_path)
    result = ray.data.read_parquet(str(tmp_path / "scores")).take_batch(1000)
    assert np.array_equal(np.sort(result["id"]), np.arange(500))
    np.testing.assert_array_equal(result["y"][np.argsort(result["id"])], -x)


def test_the_pages_deployments_run(cluster, tmp_path, capsys):
    serve = pytest.importorskip("ray.serve")
    (tmp_path / "model.onnx").write_bytes(models.one_node("Neg", FLOAT, ("n", 3, 224, 224)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    try:
        _, handle, http = blocks_of_the_page()
        run_block(handle.replace('"num_cpus": 2', '"num_cpus": 1'), tmp_path)
        assert "0." in capsys.readouterr().out
        classifier = run_block(http.replace('"num_cpus": 2', '"num_cpus": 1'), tmp_path)["Classifier"]
        serve.run(classifier.bind(relu()), name="classifier", route_prefix="/relu")
        request = urllib.request.Request(f"http://127.0.0.1:{port}/relu", json.dumps({"x": [[-1, 0, 1, 2]]}).encode())
        assert json.loads(urllib.request.urlopen(request, timeout=60).read()) == {"y": [[0, 0, 1, 2]]}
    finally:
        serve.shutdown()


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", *sys.argv[1:]]))
