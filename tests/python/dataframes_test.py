"""tenon.batches.Predictor in Daft and in Spark: the same class, Arrow's memory read in place."""
import importlib.util
import os
import pathlib
import re
import shutil
import sys

import models
import numpy as np
import pytest
from models import FLOAT
from tenon.batches import Predictor

pa = pytest.importorskip("pyarrow")

X = np.random.default_rng(0).standard_normal((100, 4), np.float32)


def needs(package):
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")


@needs("daft")
@pytest.mark.parametrize("column", ["fixed_size_list", "embedding", "tensor", "list"])
def test_daft_runs_the_predictor(column):
    import daft
    number = daft.DataType.float32()
    kind = {"fixed_size_list": daft.DataType.fixed_size_list(number, 4), "embedding": daft.DataType.embedding(number, 4),
            "tensor": daft.DataType.tensor(number, (4,)), "list": daft.DataType.list(number)}[column]

    @daft.cls(use_process=False)
    class Relu:
        def __init__(self, model):
            self.predictor = Predictor(model, threads=1)

        @daft.method.batch(return_dtype=daft.DataType.struct({"y": daft.DataType.fixed_size_list(number, 4),
                                                             "copied": daft.DataType.int64()}))
        def __call__(self, x):
            y = self.predictor(pa.table({"x": x.to_arrow()}))["y"].combine_chunks().storage
            copied = pa.array(np.full(len(y), self.predictor.counters.bytes_copied))
            return pa.StructArray.from_arrays([y, copied], names=["y", "copied"])

    relu = Relu(models.one_node("Relu", FLOAT, ("n", 4)))
    frame = daft.from_pydict({"x": list(X)}).with_column("x", daft.col("x").cast(kind))
    result = frame.select(relu(daft.col("x")).alias("result")).to_pydict()["result"]
    np.testing.assert_array_equal([row["y"] for row in result], np.maximum(X, 0))
    assert {row["copied"] for row in result} == {0}


@needs("pyspark")
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark_runs_the_predictor(tmp_path, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession
    path = str(tmp_path / "relu.onnx")
    (tmp_path / "relu.onnx").write_bytes(models.one_node("Relu", FLOAT, ("n", 4)))

    def predict(batches):
        predictor = Predictor.shared(path, keep=["id"], tensors="list")
        for batch in batches:
            result = predictor(batch)
            count = len(result)
            yield result.append_column("process", pa.array(np.full(count, os.getpid()))).append_column(
                "loaded", pa.array(np.full(count, id(predictor)))).append_column(
                    "copied", pa.array(np.full(count, predictor.counters.bytes_copied)))

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(
        "spark.sql.execution.arrow.maxRecordsPerBatch", "16").getOrCreate()
    try:
        rows = [(i, [float(number) for number in row]) for i, row in enumerate(X)]
        frame = spark.createDataFrame(rows, "id long, x array<float>").repartition(3)
        done = frame.mapInArrow(predict, "id long, y array<float>, process long, loaded long, copied long").collect()
    finally:
        spark.stop()
    done.sort(key=lambda row: row.id)
    assert [row.id for row in done] == list(range(100))
    np.testing.assert_array_equal([row.y for row in done], np.maximum(X, 0))
    assert {row.copied for row in done} == {0}
    # A worker process loads the model once, however many partitions it is given.
    assert len({(row.process, row.loaded) for row in done}) == len({row.process for row in done})


def run_block(index, folder):
    """Runs an example of the page with files of `folder`."""
    page = pathlib.Path(__file__).resolve().parents[2] / "docs/how-to/dataframes.md"
    block = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.S | re.M)[index]
    code = re.sub(r'"(?:/shared/)?(model\.onnx|rows\.parquet|scores)"', lambda name: repr(str(folder / name[1])), block)
    names = {"__name__": "__main__"}
    exec(compile(code, "docs/how-to/dataframes.md", "exec"), names)
    return names


@pytest.fixture
def folder(tmp_path):
    import pyarrow.parquet
    (tmp_path / "model.onnx").write_bytes(models.one_node("Relu", FLOAT, ("n", 4)))
    rows = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), 4)
    pyarrow.parquet.write_table(pa.table({"id": np.arange(100), "x": rows}), tmp_path / "rows.parquet")
    return tmp_path


def scores(folder):
    import pyarrow.parquet
    return np.array(pyarrow.parquet.read_table(folder / "scores").to_pandas().y.tolist())


@needs("daft")
def test_the_pages_daft_example_runs(folder):
    run_block(0, folder)
    np.testing.assert_array_equal(scores(folder), np.maximum(X, 0))


@needs("pyspark")
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_the_pages_spark_example_runs(folder, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    run_block(1, folder)["spark"].stop()
    np.testing.assert_array_equal(scores(folder), np.maximum(X, 0))


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q", *sys.argv[1:]]))
