"""Models in parts, and predictors over batches: of arrays everywhere, of Arrow tables where pyarrow is installed."""
import gc
import pickle
import subprocess
import sys
import threading
import time

import models
import numpy as np
import pytest
import tenon
from models import FLOAT, INT64, STRING, helper, numpy_helper, value
from onnx import TensorProto, external_data_helper, save
from tenon._model_parts import ModelParts, TensorPart, split_model
from tenon.batches import Predictor

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)
WIDTH = 2048  # floats of a tensor that is large enough to be a part


def bias_model(constant=False):
    """y = x + bias, with the bias as an initializer or as a Constant node"""
    bias = numpy_helper.from_array(np.arange(WIDTH, dtype=np.float32), "bias")
    nodes = [helper.make_node("Constant", [], ["bias"], value=bias)] if constant else []
    return models.model([*nodes, helper.make_node("Add", ["x", "bias"], ["y"])], [value("x", FLOAT, ["n", WIDTH])],
                        [value("y", FLOAT, ["n", WIDTH])], [] if constant else [bias])


def scale(dim="n", outputs=("y",)):
    """y = 2 x; s = the sum of all rows"""
    nodes = [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0)]
    infos = {"y": value("y", FLOAT, [dim, 2]), "s": value("s", FLOAT, [])}
    return models.model(nodes, [value("x", FLOAT, [dim, 2])], [infos[name] for name in outputs]).SerializeToString()


def two_inputs():
    """y = a + b over the columns of a"""
    return models.model([helper.make_node("Add", ["a", "b"], ["y"])], [value("a", FLOAT, ["n", 2]), value("b", FLOAT, ["n", 1])],
                        [value("y", FLOAT, ["n", 2])]).SerializeToString()


def run(session, x=None):
    return session.run(None, {"x": np.zeros((1, WIDTH), np.float32) if x is None else x})[0]


# Models in parts.


@pytest.mark.parametrize("constant", [False, True], ids=["initializer", "Constant"])
def test_a_session_reads_the_parts_where_they_lie(constant):
    parts = split_model(bias_model(constant).SerializeToString())
    part, = parts.tensors
    assert (part.name, part.element_type, part.shape, part.data.nbytes) == ("bias", FLOAT, (WIDTH,), 4 * WIDTH)
    assert len(parts.structure) < 1000 and not part.data.flags.writeable
    memory = np.array(part.data)
    session = ModelParts("", parts.structure, [TensorPart(part.name, part.element_type, part.shape, memory)]).session()
    assert np.array_equal(run(session)[0], np.arange(WIDTH))
    memory.view(np.float32)[7] = 70  # a session with a copy would not see it
    assert run(session)[0, 7] == 70
    address = memory.ctypes.data
    del memory, parts, part
    gc.collect()
    again = np.full(4 * WIDTH, 9, np.uint8)  # memory that had been freed would be taken for this
    assert run(session)[0, 8] == 8 and again.ctypes.data != address


@pytest.mark.parametrize("size_threshold", [0, 100_000], ids=["all outside", "none outside"])
def test_external_data_are_views_into_their_file(tmp_path, size_threshold):
    save(bias_model(), str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=size_threshold)
    assert (tmp_path / "w.bin").exists() == (size_threshold == 0)
    parts = split_model(tmp_path / "m.onnx")
    assert [part.name for part in parts.tensors] == ["bias"]
    for file in [*tmp_path.iterdir()]:  # the parts need no file any more
        file.rename(file.with_suffix(".moved"))
    assert np.array_equal(run(parts.session())[0], np.arange(WIDTH))


def test_external_data_within_a_branch_move_into_the_structure(tmp_path):
    """Bytes have no folder beside them, so what the store does not give by name has to be inside."""
    bias = numpy_helper.from_array(np.arange(WIDTH, dtype=np.float32), "inner")
    (tmp_path / "w.bin").write_bytes(bias.raw_data)
    external_data_helper.set_external_data(bias, "w.bin", 0, 4 * WIDTH)
    bias.ClearField("raw_data")
    branch = helper.make_graph([helper.make_node("Add", ["x", "inner"], ["z"])], "b", [], [value("z", FLOAT, ["n", WIDTH])], [bias])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["z"])], "c", [], [value("z", FLOAT, ["n", WIDTH])])
    whole = models.model([helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)],
                         [value("c", TensorProto.BOOL, []), value("x", FLOAT, ["n", WIDTH])], [value("y", FLOAT, ["n", WIDTH])])
    (tmp_path / "m.onnx").write_bytes(whole.SerializeToString())
    parts = split_model(str(tmp_path / "m.onnx"))
    assert parts.tensors == [] and len(parts.structure) > 4 * WIDTH
    result, = parts.session().run(None, {"c": np.array(True), "x": np.zeros((1, WIDTH), np.float32)})
    assert np.array_equal(result[0], np.arange(WIDTH))


@pytest.mark.parametrize("element_type, numbers", [
    (TensorProto.FLOAT16, 2), (TensorProto.BFLOAT16, 2), (TensorProto.INT8, 1), (TensorProto.DOUBLE, 8), (TensorProto.INT64, 8),
    (TensorProto.BOOL, 0), (TensorProto.INT4, 0)])
def test_types_are_kept(element_type, numbers):
    raw = bytes(range(256)) * 128
    weight = helper.make_tensor("w", element_type, [len(raw) * (1 if element_type != TensorProto.INT4 else 2) // max(numbers, 1)],
                                bytes(len(raw)) if element_type == TensorProto.BOOL else raw, raw=True)
    node = helper.make_node("Cast", ["w"], ["y"], to=FLOAT)
    made = models.model([node], [], [value("y", FLOAT, None)], [weight], opset=21).SerializeToString()
    parts = split_model(made)
    assert [part.data.nbytes for part in parts.tensors] == ([len(raw)] if numbers else [])
    np.testing.assert_array_equal(parts.session().run(None, {})[0], tenon.InferenceSession(made).run(None, {})[0])


def test_a_model_in_onnxruntimes_format_stays_in_one_piece(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "m.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(bias_model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    parts = split_model(tmp_path / "m.ort")
    assert parts.tensors == [] and np.array_equal(run(parts.session())[0], np.arange(WIDTH))


def test_what_is_wrong_with_a_model_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.onnx"):
        split_model(tmp_path / "none.onnx")
    whole = bias_model().SerializeToString()
    with pytest.raises(tenon.InvalidProtobuf, match="encoding is broken"):
        split_model(whole[: len(whole) // 2])
    made = bias_model()
    tensor = made.graph.initializer[0]
    for location, length, message in [("../w.bin", 4 * WIDTH, 'outside of the model\'s folder'), ("w.bin", 4 * WIDTH, "exceeds"),
                                      ("w.bin", 12, "takes 8192 bytes, and its external data has 12"), ("/etc/passwd", 1, "outside")]:
        (tmp_path / "w.bin").write_bytes(b"short")
        tensor.raw_data = b"x"
        external_data_helper.set_external_data(tensor, location, 0, length)
        tensor.ClearField("raw_data")
        (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
        with pytest.raises(ValueError, match=message):
            split_model(tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="bytes has no folder"):
        split_model(made.SerializeToString())
    assert split_model(b"").tensors == [] and pickle.loads(pickle.dumps(split_model(whole))).size_bytes > 4 * WIDTH


def test_every_cut_of_a_model_is_an_error_or_a_model():
    """Whatever the bytes are, the splitter ends with a model or with an error of its own."""
    whole = bias_model(constant=True).SerializeToString()
    for end in [*range(0, 400), *range(len(whole) - 100, len(whole))]:
        try:
            split_model(whole[:end])
        except (tenon.InvalidProtobuf, ValueError):
            pass
    noise = np.random.default_rng(0)
    for _ in range(2000):
        broken = bytearray(whole[:300] + whole[-200:])
        for at in noise.integers(0, len(broken), 4):
            broken[at] = noise.integers(0, 256)
        try:
            split_model(bytes(broken))
        except (tenon.InvalidProtobuf, ValueError):
            pass


# Batches of arrays.


def test_a_batch_of_arrays_is_read_in_place():
    predictor = Predictor(scale())
    batch = {"x": ROWS, "id": np.arange(6)}
    result = predictor(batch)
    assert list(result) == ["y"] and np.array_equal(result["y"], 2 * ROWS)
    counters = predictor.counters
    assert (counters.runs, counters.rows, counters.bytes_copied) == (1, 6, 0) and counters.run_ns > 0
    predictor({"x": np.asfortranarray(ROWS)})
    assert predictor.counters.bytes_copied == ROWS.nbytes
    predictor({"x": ROWS.tolist()})
    assert predictor.counters.bytes_copied == 2 * ROWS.nbytes


def test_results_stay_when_the_next_batch_runs():
    predictor = Predictor(scale())
    first = predictor({"x": ROWS})["y"]
    for _ in range(3):
        predictor({"x": ROWS + 100})
    assert np.array_equal(first, 2 * ROWS)
    pa = pytest.importorskip("pyarrow")
    first = predictor(table_of(pa, [ROWS]))["y"]
    for _ in range(3):
        predictor(table_of(pa, [ROWS + 100]))
    assert np.array_equal(first.combine_chunks().to_numpy_ndarray(), 2 * ROWS)


def test_columns_are_named_kept_and_constant():
    predictor = Predictor(two_inputs(), inputs={"a": "left"}, outputs={"y": "sum"}, keep=["id"],
                          constants={"b": np.full((1, 1), 10, np.float32)})
    result = predictor({"left": ROWS, "id": np.arange(6)})
    assert list(result) == ["id", "sum"] and np.array_equal(result["sum"], ROWS + 10)
    for wrong, message in [({"inputs": {"z": "a"}}, 'no input "z"; it has "a", "b"'), ({"outputs": ["z"]}, 'no output "z"; it has "y"'),
                           ({"constants": {"z": 1}}, 'no input "z"'), ({"tensors": "rows"}, 'not "rows"'),
                           ({"warm_up": {"a": (1, 2)}}, 'no shape for the input "b"')]:
        with pytest.raises(ValueError, match=message):
            Predictor(two_inputs(), **wrong)
    with pytest.raises(TypeError, match="put_model returns, and this is 7"):
        Predictor(7)
    plain = Predictor(two_inputs())
    for batch, message in [({"a": ROWS}, 'input "b" reads the column "b", and the batch has "a"'),
                           ({"a": ROWS, "b": ROWS[:5, :1]}, 'different numbers of rows: "a" 6, "b" 5'),
                           ({"a": np.array([[1.0], [1, 2]], object), "b": ROWS[:2, :1]}, 'rows of the column "a"'),
                           ({"a": np.float32(1), "b": ROWS}, '"a" is a scalar')]:
        with pytest.raises(ValueError, match=message):
            plain(batch)
    with pytest.raises(TypeError, match="this is a builtins.list"):
        plain([1, 2])
    with pytest.raises(ValueError, match='"id" is to be kept, and the batch has "a", "b"'):
        Predictor(two_inputs(), keep=["id"])({"a": ROWS, "b": ROWS[:, :1]})


def test_a_model_with_a_fixed_number_of_rows_gets_so_many():
    predictor = Predictor(scale(4))
    result = predictor({"x": ROWS})["y"]
    assert np.array_equal(result, 2 * ROWS)
    assert (predictor.counters.runs, predictor.counters.rows, predictor.counters.bytes_copied) == (2, 6, 4 * 2 * 4)
    strict = tenon.SessionOptions()
    strict.add_session_config_entry("tenon.disallow_copies", "1")
    predictor = Predictor(scale(4), sess_options=strict)
    assert np.array_equal(predictor({"x": ROWS[:4]})["y"], 2 * ROWS[:4])
    with pytest.raises(ValueError, match='"x" would be converted \\(32 bytes copied\\)'):
        predictor({"x": ROWS})


def test_an_output_without_rows_is_refused_and_can_be_left_out():
    with pytest.raises(ValueError, match='output "s" has the shape \\[\\] for a run of 6 rows'):
        Predictor(scale(outputs=("y", "s")))({"x": ROWS})
    assert list(Predictor(scale(outputs=("y", "s")), outputs=["y"])({"x": ROWS})) == ["y"]


def test_rows_that_are_objects_are_stacked():
    rows = np.empty(3, object)
    rows[:] = [ROWS[i] for i in range(3)]
    predictor = Predictor(scale())
    assert np.array_equal(predictor({"x": rows})["y"], 2 * ROWS[:3]) and predictor.counters.bytes_copied == 24
    texts = Predictor(models.one_node("Identity", STRING, ("n",)))
    assert list(texts({"x": np.array(["a", "bc"], object)})["y"]) == ["a", "bc"]


def test_a_batch_without_rows_has_a_result_without_rows():
    predictor = Predictor(scale(), keep=["id"])
    result = predictor({"x": ROWS[:0], "id": np.arange(0)})
    assert result["y"].shape == (0, 2) and result["y"].dtype == np.float32 and predictor.counters.runs == 0


def test_maps_come_as_lists():
    rows = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)
    assert Predictor(models.zip_map())({"x": rows})["y"] == [{3: 0.25, 4: 0.75}, {3: 0.5, 4: 0.5}]


def test_the_constructor_warms_up():
    sessions = []

    class Recorder(Predictor):
        def _warm_up(self, wanted):
            run, shapes = self.session.run, []
            self.session.run = lambda names, feed: (shapes.append({k: v.shape for k, v in feed.items()}), run(names, feed))[1]
            super()._warm_up(wanted)
            sessions.append(shapes)

    Recorder(scale())
    Recorder(scale(), warm_up=64)
    Recorder(scale(4), warm_up=64)
    Recorder(scale(), warm_up=0)
    Recorder(models.one_node("Neg", FLOAT, ("n", "m")))
    Recorder(models.one_node("Neg", FLOAT, ("n", "m")), warm_up={"x": (3, 5)})
    assert sessions == [[{"x": (1, 2)}], [{"x": (64, 2)}], [{"x": (4, 2)}], [], [], [{"x": (3, 5)}]]
    with pytest.raises(tenon.InvalidArgument, match="Expected: 2"):
        Predictor(scale(), warm_up={"x": (3, 5)})
    gather = models.model([helper.make_node("Gather", ["x", "i"], ["y"], axis=1)], [value("x", FLOAT, ["n", 2]), value("i", INT64, [1])],
                          [value("y", FLOAT, ["n", 1])]).SerializeToString()
    with pytest.warns(UserWarning, match="not warmed up"):
        Predictor(gather, constants={"i": np.array([7])})


def test_threads_are_the_sessions():
    options = tenon.SessionOptions()
    assert Predictor(scale(), threads=2, sess_options=options).session.get_session_options().intra_op_num_threads == 2
    assert options.intra_op_num_threads == 0  # the caller's stay as they are
    options.intra_op_num_threads = 1
    assert Predictor(scale(), threads=2, sess_options=options).session.get_session_options().intra_op_num_threads == 1


def test_calls_of_threads_take_turns_and_are_counted():
    predictor = Predictor(scale(), outputs=["y"])
    inside, most, runs = [0], [0], []
    run = predictor.session.run

    def slow(names, feed):
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        begin_ns = time.monotonic_ns()
        threading.Event().wait(0.01)
        result = run(names, feed)
        inside[0] -= 1
        runs.append((begin_ns, time.monotonic_ns()))
        return result

    predictor.session.run = slow
    results, calls, start = [None] * 8, [None] * 8, threading.Barrier(8)

    def call(i):
        start.wait()
        begin_ns = time.monotonic_ns()
        results[i] = predictor({"x": ROWS + i})["y"]
        calls[i] = time.monotonic_ns() - begin_ns

    threads = [threading.Thread(target=call, args=[i]) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(result, 2 * (ROWS + i)) for i, result in enumerate(results)) and most[0] == 1
    counters = predictor.counters
    assert (counters.runs, counters.rows) == (8, 48)
    # However the threads were scheduled: a call's time is its turn's wait and its run, which holds the model's.
    run_ns = sum(end_ns - begin_ns for begin_ns, end_ns in runs)
    assert run_ns <= counters.run_ns <= sum(calls) and 0 <= counters.queue_ns <= sum(calls) - counters.run_ns


def test_the_wait_for_another_call_is_counted():
    predictor = Predictor(scale(), outputs=["y"])
    run, first_runs, go_on, turn = predictor.session.run, threading.Event(), threading.Event(), predictor._turn
    waits = []

    def first(names, feed):
        first_runs.set()
        assert go_on.wait(100)
        return run(names, feed)

    class Turn:
        """The predictor's lock, which tells when the second call asks for it"""

        def __enter__(self):
            waits.append(time.monotonic_ns())
            turn.acquire()

        def __exit__(self, *_):
            turn.release()

    predictor.session.run = first
    one = threading.Thread(target=predictor, args=[{"x": ROWS}])
    one.start()
    assert first_runs.wait(100)
    predictor.session.run, predictor._turn = run, Turn()
    two = threading.Thread(target=predictor, args=[{"x": ROWS}])
    two.start()
    while not waits:
        time.sleep(0.001)
    time.sleep(0.02)  # so that there is something to count
    waited_ns = time.monotonic_ns() - waits[0]
    go_on.set()
    one.join()
    two.join()
    assert predictor.counters.runs == 2 and predictor.counters.queue_ns >= waited_ns


def test_a_process_has_one_shared_predictor_for_equal_arguments():
    first = Predictor.shared(scale(), outputs=["y"])
    assert Predictor.shared(scale(), outputs=["y"]) is first
    assert Predictor.shared(scale(), outputs={"y": "z"}) is not first


def test_importing_tenon_imports_neither_ray_nor_pyarrow():
    code = "import sys, tenon, tenon.batches; print([n for n in ('ray', 'pyarrow', 'pandas') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


# Arrow.


def table_of(pa, chunks, column="x", **others):
    arrays = [pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(chunk)) for chunk in chunks]
    return pa.table({column: pa.chunked_array(arrays), **others})


def test_an_arrow_table_is_read_chunk_by_chunk_without_copies():
    pa = pytest.importorskip("pyarrow")
    seen = []

    class Probe(Predictor):
        def _run(self, feed, rows):
            seen.append((feed["x"].ctypes.data, rows))
            return super()._run(feed, rows)

    predictor = Probe(scale(), keep=["id"])
    table = table_of(pa, [ROWS[:1], ROWS[1:4], ROWS[4:]], id=pa.chunked_array([[0, 1], [2, 3, 4, 5]]))
    result = predictor(table)
    assert isinstance(result, pa.Table) and result.column_names == ["id", "y"]
    assert np.array_equal(np.concatenate([chunk.to_numpy_ndarray() for chunk in result["y"].chunks]), 2 * ROWS)
    assert seen == [(chunk.storage.values.buffers()[1].address, len(chunk)) for chunk in table["x"].chunks]
    assert predictor.counters.bytes_copied == 0 and predictor.counters.runs == 3
    seen.clear()
    part = table.slice(2, 3)
    assert np.array_equal(np.concatenate([c.to_numpy_ndarray() for c in predictor(part)["y"].chunks]), 2 * ROWS[2:5])
    second = table["x"].chunks[1].storage.values.buffers()[1].address
    assert seen[0] == (second + 8, 2) and predictor.counters.bytes_copied == 0
    batch = predictor(pa.RecordBatch.from_arrays([table["x"].chunks[1], pa.array([7, 8, 9])], names=["x", "id"]))
    assert isinstance(batch, pa.RecordBatch) and np.array_equal(batch["y"].to_numpy_ndarray(), 2 * ROWS[1:4])


def test_chunks_of_several_columns_meet_at_their_borders():
    pa = pytest.importorskip("pyarrow")
    predictor = Predictor(two_inputs())
    empty = table_of(pa, [ROWS])["x"].chunks[0].slice(2, 0)
    left = pa.chunked_array([*table_of(pa, [ROWS[:4]])["x"].chunks, empty, *table_of(pa, [ROWS[4:]])["x"].chunks])
    table = pa.table({"a": left,
                      "b": table_of(pa, [ROWS[:1, :1], ROWS[1:4, :1], ROWS[4:5, :1], ROWS[5:, :1]])["x"]})
    result = predictor(table)["y"]
    assert [len(chunk) for chunk in result.chunks] == [1, 3, 1, 1]
    assert np.array_equal(np.concatenate([c.to_numpy_ndarray() for c in result.chunks]), ROWS + ROWS[:, :1])
    assert predictor.counters.bytes_copied == 0


def columns(pa):
    flat = pa.array(ROWS.reshape(-1))
    yield "fixed-size list", pa.FixedSizeListArray.from_arrays(flat, 2), 0
    yield "list", pa.ListArray.from_arrays(pa.array(np.arange(7, dtype=np.int32) * 2), flat), 0
    yield "large list", pa.LargeListArray.from_arrays(pa.array(np.arange(7) * 2), flat), 0
    yield "list of lists", pa.ListArray.from_arrays(pa.array(np.arange(7, dtype=np.int32)), pa.FixedSizeListArray.from_arrays(flat, 2)), 0


def test_lists_of_one_length_are_tensors():
    pa = pytest.importorskip("pyarrow")
    for name, column, copied in columns(pa):
        dims = ["n", 1, 2] if name == "list of lists" else ["n", 2]
        for cut in [column, column.slice(2, 3)]:
            predictor = Predictor(models.one_node("Neg", FLOAT, dims))
            result = predictor(pa.table({"x": cut}))["y"].combine_chunks()
            assert np.array_equal(np.asarray(result.flatten() if not isinstance(result, pa.ExtensionArray) else
                                             result.to_numpy_ndarray()).reshape(-1), -ROWS.reshape(-1)[4:10] if len(cut) == 3
                                  else -ROWS.reshape(-1)), name
            assert predictor.counters.bytes_copied == copied, name
    one = Predictor(models.one_node("Neg", FLOAT, ("n",)))
    assert one(pa.table({"x": pa.array(np.ones(3, np.float32))}))["y"].to_pylist() == [-1, -1, -1]
    for bad, message in [(pa.array([[1.0, 2], [3]], pa.list_(pa.float32())), 'column "x" has rows of 1 to 2 values'),
                         (pa.array([[1.0, 2], None], pa.list_(pa.float32())), 'column "x" has 1 nulls among 2 rows'),
                         (pa.array([[1.0, None]], pa.list_(pa.float32())), 'column "x" has 1 nulls'),
                         (pa.array([None, 1], pa.float32()), 'column "x" has 1 nulls'),
                         (pa.array([None, "a"]), 'column "x" has 1 nulls')]:
        with pytest.raises(ValueError, match=message):
            Predictor(scale())(pa.table({"x": bad}))


def test_bits_and_strings_are_converted_and_counted():
    pa = pytest.importorskip("pyarrow")
    bits = Predictor(models.one_node("Not", TensorProto.BOOL, ("n",)))
    assert bits(pa.table({"x": [True, False, True]}))["y"].to_pylist() == [False, True, False]
    assert bits.counters.bytes_copied == 3
    texts = Predictor(models.one_node("Identity", STRING, ("n",)))
    assert texts(pa.table({"x": ["a", "bc"]}))["y"].to_pylist() == ["a", "bc"] and texts.counters.bytes_copied > 0
    strict = tenon.SessionOptions()
    strict.add_session_config_entry("tenon.disallow_copies", "1")
    with pytest.raises(ValueError, match="tenon.disallow_copies"):
        Predictor(models.one_node("Not", TensorProto.BOOL, ("n",)), sess_options=strict)(pa.table({"x": [True]}))
    upper = models.one_node("StringNormalizer", STRING, ("n",), case_change_action="UPPER")
    assert Predictor(upper, sess_options=strict)(pa.table({"x": ["a"]}))["y"].to_pylist() == ["A"]


def test_results_take_the_form_that_is_asked_for():
    pa = pytest.importorskip("pyarrow")
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    table = table_of(pa, [x])
    lists = Predictor(models.one_node("Neg", FLOAT, ("n", 3, 2)), tensors="list")(table)["y"]
    assert lists.type == pa.list_(pa.list_(pa.float32())) and np.array_equal(lists.to_pylist(), -x)
    tensors = Predictor(models.one_node("Neg", FLOAT, ("n", 3, 2)))(table)["y"]
    assert tensors.type == pa.fixed_shape_tensor(pa.float32(), (3, 2))
    nothing = Predictor(models.one_node("Neg", FLOAT, ("n", 3, 2)))(table.slice(0, 0))["y"]
    assert nothing.type == tensors.type and len(nothing) == 0
    maps = Predictor(models.zip_map())(table_of(pa, [ROWS]))["y"]
    assert maps.to_pylist()[1] == [(3, 2.0), (4, 3.0)]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
