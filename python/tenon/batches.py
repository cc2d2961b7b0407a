"""A model over batches of rows: one class for Ray Data, Ray Serve, Spark, Daft and plain loops (docs/how-to/ray.md)."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Union

import numpy as np

from tenon import _arrow
from tenon._core import NodeArg, SessionOptions
from tenon._session import InferenceSession, Provider

Array = np.ndarray[Any, Any]
Feed = dict[str, Any]

_DTYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
    **{f"tensor({sign}int{bits})": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


class ModelSource(Protocol):
    """A model that is neither a path nor bytes: tenon.ray.StoredModel."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    def session(
        self, sess_options: SessionOptions | None = None, providers: Sequence[Provider] | None = None
    ) -> InferenceSession:
        """A new session."""
        ...


Model = Union[str, "os.PathLike[str]", bytes, ModelSource]


@dataclass
class Counters:
    """What a predictor has done so far. Times are in nanoseconds."""

    runs: int = 0
    rows: int = 0
    bytes_copied: int = 0  # of inputs and between memory spaces: those of the sessions' ledgers, and of conversions before
    queue_ns: int = 0  # calls waited for those of other threads
    run_ns: int = 0


def _quoted(names: Any) -> str:
    return ", ".join(f'"{name}"' for name in names)


class Predictor:
    """A model that maps a batch of rows to a batch of results; the first dimension of its inputs and outputs counts rows.

    model: a path, bytes, or a model that tenon.ray.put_model has stored.
    inputs: for names of the model's inputs the columns to read; others read the column of their own name.
    outputs: names of outputs to compute, or a dictionary from them to names of columns. None: all.
    constants: values for inputs that are the same for every run.
    keep: columns of a batch that its result has, too.
    warm_up: rows of a run on zeros in the constructor, 0 for none; or a shape for each input that is no constant. A model
        with unknown dimensions behind the first one is only warmed up if shapes are given.
    threads: of the session; None as InferenceSession chooses. sess_options.intra_op_num_threads goes first.
    tensors: the form of Arrow columns with rows of one dimension or more: "fixed_shape_tensor", or "list" for programs
        without extension types.
    sess_options, providers: as InferenceSession has them. In strict mode ("tenon.disallow_copies") a batch that would be
        copied is an error.

    A batch is a dictionary of arrays (or lists), a pyarrow.Table or a pyarrow.RecordBatch; the result is of the same kind.
    Arrays and Arrow columns of numbers are read where they lie, tables chunk by chunk: a run for each piece that is one
    chunk in all columns. A model whose inputs have a fixed number of rows gets so many at a time, the last ones filled up.
    Threads: calls take turns, since a run uses all threads of the session.
    Errors: ValueError for columns that are missing or do not fit, with their names; those of InferenceSession.
    """

    def __init__(
        self,
        model: Model,
        *,
        inputs: Mapping[str, str] | None = None,
        outputs: Sequence[str] | Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
        keep: Sequence[str] = (),
        warm_up: int | Mapping[str, Sequence[int]] = 1,
        threads: int | None = None,
        tensors: str = "fixed_shape_tensor",
        sess_options: SessionOptions | None = None,
        providers: Sequence[Provider] | None = None,
    ) -> None:
        if tensors not in _arrow.FORMS:
            raise ValueError(f'tensors is one of {_quoted(_arrow.FORMS)}, and not "{tensors}".')
        options = SessionOptions() if sess_options is None else copy.copy(sess_options)
        if threads is not None and options.intra_op_num_threads == 0:
            options.intra_op_num_threads = threads
        if isinstance(model, (str, bytes, os.PathLike)):
            self.session = InferenceSession(model, options, providers)
        elif hasattr(model, "session"):
            self.session = model.session(options, providers)
        else:
            raise TypeError(f"A model is a path, bytes or what tenon.ray.put_model returns, and this is {model!r}.")
        self._strict = _config_entry(options, "tenon.disallow_copies") == "1"
        self._form = tensors
        self._keep = [keep] if isinstance(keep, str) else list(keep)
        self._turn = threading.Lock()
        self._counters = Counters()
        self._constants = dict(constants or {})
        self._inputs = self._columns_of_inputs(inputs or {})
        self._fixed_rows = self._rows_of_a_run()
        self._columns = self._columns_of_outputs(outputs)
        self._result_shapes: dict[str, tuple[int, ...]] = {}
        self._warm_up(warm_up)

    @classmethod
    def shared(cls, model: Model, **arguments: Any) -> Predictor:
        """The predictor that this process has for these arguments; the first call makes it.

        For functions that are called anew for each partition, as those of Spark are.
        """
        key = (cls, pickle.dumps((model, sorted(arguments.items()))))
        with _shared_lock:
            if key not in _shared:
                _shared[key] = cls(model, **arguments)
            return _shared[key]

    @property
    def counters(self) -> Counters:
        """A snapshot of what has been counted since the constructor."""
        return replace(self._counters)

    def __call__(self, batch: Any) -> Any:
        """The results for a batch, in its order: a dictionary for a dictionary, a table for a table."""
        begin_ns = time.monotonic_ns()
        with self._turn:
            run_begin_ns = time.monotonic_ns()
            before = replace(self._counters)
            if _arrow.is_arrow(batch):
                result = self._of_table(batch)
            elif isinstance(batch, Mapping):
                result = self._of_arrays(batch)
            else:
                raise TypeError(
                    "A batch is a dictionary of arrays, a pyarrow.Table or a pyarrow.RecordBatch (batch_format=\"numpy\" or "
                    f'"pyarrow"), and this is a {type(batch).__module__}.{type(batch).__qualname__}.'
                )
            self._counters.queue_ns += run_begin_ns - begin_ns
            self._counters.run_ns += time.monotonic_ns() - run_begin_ns
            now = self._counters
            counted = Counters(*(getattr(now, name) - getattr(before, name) for name in Counters.__dataclass_fields__))
        self._counted(counted)
        return result

    def _counted(self, counters: Counters) -> None:
        """Called after each batch with what it added."""

    def _arrow_column(self, rows: Any, name: str) -> Any:
        return _arrow.column_of(rows, name, self._form)

    # What the model wants.

    def _columns_of_inputs(self, given: Mapping[str, str]) -> dict[str, tuple[NodeArg, str]]:
        infos = {info.name: info for info in self.session.get_inputs()}
        for name in (*given, *self._constants):
            if name not in infos:
                raise ValueError(f'The model has no input "{name}"; it has {_quoted(infos)}.')
        for name, info in infos.items():
            if name not in self._constants and info.type.startswith("tensor") and info.shape == []:
                raise ValueError(f'The input "{name}" is a scalar and has no rows: give it in constants.')
        return {name: (info, given.get(name, name)) for name, info in infos.items() if name not in self._constants}

    def _rows_of_a_run(self) -> int | None:
        fixed = {info.shape[0] for info, _ in self._inputs.values() if info.shape and isinstance(info.shape[0], int)}
        if len(fixed) > 1:
            raise ValueError(f"The model's inputs have different numbers of rows: {sorted(fixed)}.")
        return next(iter(fixed), None)

    def _columns_of_outputs(self, given: Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
        names = [info.name for info in self.session.get_outputs()]
        if given is None:
            return {name: name for name in names}
        if isinstance(given, str):
            given = [given]
        chosen = dict(given) if isinstance(given, Mapping) else {name: name for name in given}
        for name in chosen:
            if name not in names:
                raise ValueError(f'The model has no output "{name}"; it has {_quoted(names)}.')
        return chosen

    def _warm_up(self, wanted: int | Mapping[str, Sequence[int]]) -> None:
        if isinstance(wanted, Mapping):
            shapes: dict[str, list[Any]] = {name: list(wanted.get(name, ())) for name in self._inputs}
            for name, shape in shapes.items():
                if not shape:
                    raise ValueError(f'warm_up has no shape for the input "{name}"; it has {_quoted(wanted)}.')
        else:
            if wanted <= 0:
                return
            shapes = {name: [self._fixed_rows or wanted, *info.shape[1:]] for name, (info, _) in self._inputs.items()}
            if not all(isinstance(dim, int) for shape in shapes.values() for dim in shape):
                return
        try:
            feed = {name: np.zeros(shape, _DTYPES[self._inputs[name][0].type]) for name, shape in shapes.items()}
            for name, zeros in feed.items():
                if zeros.dtype == object:
                    feed[name] = np.full(zeros.shape, "", object)
            self.session.run(list(self._columns), {**feed, **self._constants})
        except Exception as error:
            if isinstance(wanted, Mapping):
                raise
            # Zeros of any shape may be no input of the model; rows will say so if they are none either.
            warnings.warn(f"The model was not warmed up: {error}", stacklevel=3)

    # Batches of arrays.

    def _of_arrays(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        feed = {}
        for name, (info, column) in self._inputs.items():
            if column not in batch:
                raise self._missing(name, column, batch)
            feed[name] = self._as_array(batch[column], info, column)
        rows = self._count_rows({name: len(array) for name, array in feed.items()})
        made = {column: [] for column in self._columns.values()} if rows else self._nothing()
        for begin, end in self._steps(0, rows):
            part = feed if (begin, end) == (0, rows) else {name: array[begin:end] for name, array in feed.items()}
            for (_, column), result in zip(self._columns.items(), self._run(part, end - begin)):
                made[column].append(result)
        result = {name: batch[name] for name in self._kept(batch)}
        result.update({column: parts[0] if len(parts) == 1 else _joined(parts) for column, parts in made.items()})
        return result

    def _as_array(self, value: Any, info: NodeArg, column: str) -> Array:
        wanted = _DTYPES.get(info.type)
        if not isinstance(value, np.ndarray):
            try:
                made = np.asarray(value, wanted)
            except ValueError as error:
                raise ValueError(f'The column "{column}" is no array of {info.type}: {error}') from None
            self._converted(made.nbytes, column)
            return self._checked(made, column)
        if value.dtype == object and wanted is not None and wanted is not np.object_ and len(value):
            try:
                value = np.stack([np.asarray(row, wanted) for row in value])
            except (ValueError, TypeError) as error:
                raise ValueError(f'The rows of the column "{column}" make no array of {info.type}: {error}') from None
            self._converted(value.nbytes, column)
        return self._checked(value, column)

    def _checked(self, array: Array, column: str) -> Array:
        if array.ndim == 0:
            raise ValueError(f'The column "{column}" is a scalar, and a batch has rows.')
        return array

    def _converted(self, size_bytes: int, column: str, is_text: bool = False) -> None:
        if self._strict and not is_text and size_bytes:
            raise ValueError(
                f'The column "{column}" would be converted ({size_bytes} bytes copied), and tenon.disallow_copies is set.'
            )
        self._counters.bytes_copied += size_bytes

    # Arrow's tables.

    def _of_table(self, table: Any) -> Any:
        pa = _arrow.pyarrow()
        is_table = isinstance(table, pa.Table)
        chunks = {}
        for name, (_, column) in self._inputs.items():
            if column not in table.column_names:
                raise self._missing(name, column, table.column_names)
            array = table.column(column)
            chunks[name] = array.chunks if is_table else [array]
        made = {column: [] for column in self._columns.values()} if table.num_rows else self._nothing()
        for feed, rows in self._pieces(chunks, table.num_rows):
            for begin, end in self._steps(0, rows):
                part = feed if (begin, end) == (0, rows) else {name: array[begin:end] for name, array in feed.items()}
                for (_, column), result in zip(self._columns.items(), self._run(part, end - begin)):
                    made[column].append(result)
        names = list(self._kept(table.column_names))
        arrays = [table.column(name) for name in names]
        for column, parts in made.items():
            columns = [self._arrow_column(part, column) for part in parts]
            names.append(column)
            if is_table:
                arrays.append(pa.chunked_array(columns))
            else:
                arrays.append(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))
        return (pa.table if is_table else pa.RecordBatch.from_arrays)(arrays, names=names)

    def _pieces(self, chunks: dict[str, list[Any]], rows: int) -> Iterator[tuple[Feed, int]]:
        """Feeds of rows that are in one chunk in every column; each chunk is imported once."""
        at = {name: [0, 0] for name in chunks}  # of each column the chunk, and the row within it
        imported: dict[str, tuple[int, Array]] = {}
        left = rows
        while left:
            count, feed = left, {}
            for name, position in at.items():
                while position[1] == len(chunks[name][position[0]]):
                    position[0], position[1] = position[0] + 1, 0
                count = min(count, len(chunks[name][position[0]]) - position[1])
            for name, position in at.items():
                index, row = position
                if imported.get(name, (-1,))[0] != index:
                    imported[name] = index, self._import(chunks[name][index], name)
                feed[name] = imported[name][1][row : row + count]
                position[1] += count
            yield feed, count
            left -= count

    def _import(self, chunk: Any, name: str) -> Array:
        column = self._inputs[name][1]
        array, copied = _arrow.rows_of(chunk, column)
        self._converted(copied, column, array.dtype == object)
        return array

    # Runs.

    def _steps(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        step = self._fixed_rows or max(end - begin, 1)
        for first in range(begin, end, step):
            yield first, min(first + step, end)

    def _run(self, feed: Feed, rows: int) -> list[Any]:
        fixed = self._fixed_rows
        if fixed is not None and rows < fixed:
            for name, array in feed.items():
                feed = {**feed, name: np.concatenate([array, np.repeat(array[-1:], fixed - rows, 0)])}
                self._converted(feed[name].nbytes, self._inputs[name][1], array.dtype == object)
        results = self.session.run(list(self._columns), {**feed, **self._constants})
        self._counters.runs += 1
        self._counters.rows += rows
        self._counters.bytes_copied += sum(entry.size_bytes for entry in self.session.last_copies if not entry.once)
        for i, (name, result) in enumerate(zip(self._columns, results)):
            count = (len(result) if result.ndim else None) if isinstance(result, np.ndarray) else len(result)
            if count != (fixed or rows):
                shape = list(result.shape) if isinstance(result, np.ndarray) else [count]
                raise ValueError(
                    f'The output "{name}" has the shape {shape} for a run of {fixed or rows} rows: its first dimension does '
                    "not count rows. Leave it out with outputs=[...]."
                )
            if isinstance(result, np.ndarray):
                self._result_shapes[name] = result.shape[1:]
            results[i] = result if rows == count else result[:rows]
        return results

    def _nothing(self) -> dict[str, list[Any]]:
        """The results of no rows, in the shapes of earlier runs, else of the model."""
        infos = {info.name: info for info in self.session.get_outputs()}
        made: dict[str, list[Any]] = {}
        for name, column in self._columns.items():
            declared = tuple(dim if isinstance(dim, int) else 0 for dim in infos[name].shape[1:])
            made[column] = [np.empty((0, *self._result_shapes.get(name, declared)), _DTYPES.get(infos[name].type, object))]
        return made

    def _count_rows(self, counts: dict[str, int]) -> int:
        if len(set(counts.values())) > 1:
            texts = ", ".join(f'"{self._inputs[name][1]}" {count}' for name, count in counts.items())
            raise ValueError(f"The columns of a batch have different numbers of rows: {texts}.")
        return next(iter(counts.values()), 0)

    def _kept(self, names: Any) -> list[str]:
        for name in self._keep:
            if name not in names:
                raise ValueError(f'The column "{name}" is to be kept, and the batch has {_quoted(names)}.')
            if name in self._columns.values():
                raise ValueError(f'The column "{name}" is to be kept, and an output has the same name: outputs= renames it.')
        return self._keep

    def _missing(self, name: str, column: str, names: Any) -> ValueError:
        return ValueError(
            f'The model\'s input "{name}" reads the column "{column}", and the batch has {_quoted(names)}: '
            f'inputs={{"{name}": COLUMN}} names another.'
        )


def _config_entry(options: SessionOptions, key: str) -> str | None:
    try:
        return options.get_session_config_entry(key)
    except RuntimeError:
        return None


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [row for part in parts for row in part]


_shared: dict[Any, Predictor] = {}
_shared_lock = threading.Lock()
