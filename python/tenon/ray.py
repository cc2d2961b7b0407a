"""Tenon in Ray: models in the object store, and predictors for Ray Data and Ray Serve (docs/how-to/ray.md).

    model = tenon.ray.put_model("model.onnx")
    results = dataset.map_batches(tenon.ray.Predictor, fn_constructor_args=[model], batch_format="pyarrow",
                                  compute=ray.data.ActorPoolStrategy(size=4))

`import tenon` does not import Ray; this module does.
"""

from __future__ import annotations

import copy
import fcntl
import glob
import importlib
import math
import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenon import _core
from tenon._core import SessionOptions
from tenon._model_parts import ModelParts, TensorPart, split_model
from tenon._session import InferenceSession, Provider
from tenon.batches import Counters, Model, _config_entry
from tenon.batches import Predictor as _Predictor

__all__ = ["Predictor", "StoredModel", "put_model"]

# Type checkers take `import ray` for this file where Ray is not installed.
ray: Any = importlib.import_module("ray")

_CUDA = "TenonCudaExecutionProvider"
_BAR_AFTER_SECONDS = 1.0


@dataclass(frozen=True)
class StoredModel:
    """A model in Ray's object store. It pickles: pass it to tasks, actors and constructors.

    The process that called put_model owns the object, and the store keeps it as long as that process has a StoredModel of
    it, or another one uses it.
    """

    name: str
    ref: Any  # a ray.ObjectRef
    size_bytes: int

    def parts(self) -> ModelParts:
        """The model's structure and its tensors: read-only arrays in the shared memory of this node's object store.

        The first call on a node fetches the model from another one. Errors: ray.exceptions.ObjectLostError and others of
        ray.get.
        """
        structure, entries, arrays = ray.get(self.ref)
        tensors = [TensorPart(name, kind, shape, array) for (name, kind, shape), array in zip(entries, arrays)]
        return ModelParts(self.name, structure, tensors)

    def session(
        self, sess_options: SessionOptions | None = None, providers: Sequence[Provider] | None = None
    ) -> InferenceSession:
        """A session that reads the model's tensors in the object store. It cannot be pickled; the StoredModel can.

        In an actor or task it shares the weights that kernels pack with the other actors of the node.
        """
        return self.parts().session(_sharing_packed_weights(sess_options), providers)


def put_model(model: str | os.PathLike[str] | bytes) -> StoredModel:
    """Puts a model into the object store of this node, from where each other node that uses it gets one copy.

    model: a path, beside which external data are looked for, or bytes. Tensors of 4 KiB and more are written from the file
    into the store directly, each aligned to 64 bytes; the process never has them in memory of its own.
    Errors: OSError, tenon.InvalidProtobuf, ValueError for external data that do not fit; those of ray.put.
    """
    parts = split_model(model)
    entries = [(part.name, part.element_type, part.shape) for part in parts.tensors]
    ref = ray.put((parts.structure, entries, [part.data for part in parts.tensors]))
    return StoredModel(parts.name, ref, parts.size_bytes)


def _in_worker() -> bool:
    if not ray.is_initialized():
        return False
    context = ray.get_runtime_context()
    return context.get_actor_id() is not None or context.get_task_id() is not None


def _assigned_threads() -> int | None:
    """The whole CPUs of this actor or task, at least one; None outside of both."""
    if not _in_worker():
        return None
    assigned: dict[str, float] = ray.get_runtime_context().get_assigned_resources()
    return max(1, math.floor(assigned.get("CPU", 1)))


def _assigned_providers(library: str | None) -> list[Provider] | None:
    """The GPU of this actor or task, if it has one; Ray has made the others invisible (CUDA_VISIBLE_DEVICES)."""
    ids = ray.get_gpu_ids() if _in_worker() else []
    if not ids:
        return None
    if _CUDA not in _core.get_available_providers():  # which registers the package tenon-cuda, where it is installed
        if library is None:
            raise RuntimeError(
                f"The actor has GPU {ids[0]}, and there is no CUDA plugin here: install tenon-cuda, or give cuda_library=PATH, "
                'or providers=["CPUExecutionProvider"].'
            )
        _core.register_execution_provider_library("tenon_ray_cuda", library)
    if _CUDA not in _core.get_available_providers():
        raise RuntimeError(
            f"The actor has GPU {ids[0]}, and the CUDA plugin offers no device in this process (CUDA_VISIBLE_DEVICES is "
            f"{os.environ.get('CUDA_VISIBLE_DEVICES')!r}); its log says why."
        )
    return [_CUDA]


_SHARED_MEMORY = "/dev/shm"
_FOLDER_KEY, _LIMIT_KEY = "tenon.packed_weights_folder", "tenon.packed_weights_limit_mb"


def _folders() -> str:
    """What the names of the folders begin with in which this user's actors share packed weights."""
    return os.path.join(_SHARED_MEMORY, f"tenon-{os.getuid()}-")


def _remove_folders_without_users() -> None:
    """Those of actors that were killed: the last session that ends removes its folder itself."""
    for folder in glob.glob(glob.escape(_folders()) + "*"):
        try:
            with open(os.path.join(folder, "lock"), "r+b") as lock:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)  # each session holds a lock on the first byte
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def _sharing_packed_weights(sess_options: SessionOptions | None) -> SessionOptions | None:
    """The options with this node's folder of packed weights, in an actor or task; unless they name one, or none ("").

    The folder may take what the memory file system has beside the object stores, which lie there too.
    """
    if not _in_worker() or not os.path.isdir(_SHARED_MEMORY):
        return sess_options
    options = SessionOptions() if sess_options is None else copy.copy(sess_options)
    if _config_entry(options, _FOLDER_KEY) is not None:
        return options
    context = ray.get_runtime_context()
    mine = context.get_node_id()
    nodes = [node for node in ray.nodes() if node["Alive"]]
    machine = next((node["NodeManagerHostname"] for node in nodes if node["NodeID"] == mine), None)
    stores = sum(
        int(node["Resources"].get("object_store_memory", 0)) for node in nodes if node["NodeManagerHostname"] == machine
    )
    room = os.statvfs(_SHARED_MEMORY)
    limit_mb = (room.f_blocks * room.f_frsize - stores) >> 20
    if limit_mb > 0:
        _remove_folders_without_users()
        options.add_session_config_entry(_FOLDER_KEY, f"{_folders()}{context.get_session_name()}-{mine[:16]}")
        options.add_session_config_entry(_LIMIT_KEY, str(limit_mb))
    return options


class _LoadingBar:
    """A bar of Ray's, which the driver shows with those of other actors, for what takes longer than a second."""

    def __init__(self, name: str, stages: int) -> None:
        self._name, self._stages, self._done = name, stages, 0
        self._bar: Any = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(_BAR_AFTER_SECONDS, self._show)
        self._timer.daemon = True

    def __enter__(self) -> _LoadingBar:
        if _in_worker():
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._stages = 0
            if self._bar is not None:
                self._bar.close()

    def step(self) -> None:
        """One stage is done."""
        with self._lock:
            self._done += 1
            if self._bar is not None:
                self._bar.update(1)

    def _show(self) -> None:
        tqdm_ray = importlib.import_module("ray.experimental.tqdm_ray")
        with self._lock:
            if self._stages == 0:
                return
            self._bar = tqdm_ray.tqdm(desc=f"Tenon loads {self._name}", total=self._stages, unit="stage")
            self._bar.update(self._done)


class _Loading:
    """A model whose loading the bar shows: fetch, then load."""

    def __init__(self, model: StoredModel, bar: _LoadingBar) -> None:
        self.name, self._model, self._bar = model.name, model, bar

    def session(
        self, sess_options: SessionOptions | None = None, providers: Sequence[Provider] | None = None
    ) -> InferenceSession:
        parts = self._model.parts()
        self._bar.step()
        session = parts.session(sess_options, providers)
        self._bar.step()
        return session


class _Metrics:
    """Counters of Ray, which every node's metrics agent exports, with a tag for the model."""

    def __init__(self, model: str) -> None:
        counter_of = importlib.import_module("ray.util.metrics").Counter

        def made(name: str, description: str) -> Any:
            counter = counter_of(name, description=description, tag_keys=("model",))
            counter.set_default_tags({"model": model})
            return counter

        self._runs = made("tenon_runs", "Runs of the model.")
        self._rows = made("tenon_rows", "Rows that went through the model.")
        self._copied = made("tenon_bytes_copied", "Bytes of inputs that were copied or converted before a run read them.")
        self._queue = made("tenon_queue_seconds", "Seconds that calls waited for those of other threads.")
        self._run = made("tenon_run_seconds", "Seconds of calls after their wait.")

    def add(self, counted: Counters) -> None:
        for counter, value in (
            (self._runs, counted.runs),
            (self._rows, counted.rows),
            (self._copied, counted.bytes_copied),
            (self._queue, counted.queue_ns * 1e-9),
            (self._run, counted.run_ns * 1e-9),
        ):
            if value > 0:  # Ray's counters refuse 0
                counter.inc(value)


class Predictor(_Predictor):
    """tenon.batches.Predictor in an actor of Ray: for Dataset.map_batches, Ray Serve, and actors of one's own.

    model: also a StoredModel of put_model, whose tensors the session reads in the object store. Weights that kernels pack
        are one copy for all actors of a node that have the model (docs/how-to/ray.md).
    threads: None takes the CPUs that Ray has assigned to the actor, whole ones and at least one.
    providers: None takes the GPU that Ray has assigned, if there is one, and the CPU for what the GPU does not run.
    cuda_library: the CUDA plugin, where it is not found beside the package.
    metrics: whether counters of ray.util.metrics are kept: tenon_runs, tenon_rows, tenon_bytes_copied,
        tenon_queue_seconds and tenon_run_seconds, each with the tag `model`.
    The other arguments are those of tenon.batches.Predictor. Where loading takes longer than a second, a progress bar of
    Ray's shows it.

    Errors: RuntimeError for an actor with a GPU and without a CUDA plugin; those of tenon.batches.Predictor.
    """

    def __init__(
        self,
        model: Model,
        *,
        threads: int | None = None,
        providers: Sequence[Provider] | None = None,
        sess_options: SessionOptions | None = None,
        cuda_library: str | None = None,
        metrics: bool = True,
        **arguments: Any,
    ) -> None:
        name = model.name if isinstance(model, StoredModel) else model if isinstance(model, (str, os.PathLike)) else "of bytes"
        name = os.path.basename(os.fspath(name))
        self._metrics: _Metrics | None = None
        with _LoadingBar(name, 3 if isinstance(model, StoredModel) else 1) as bar:
            if threads is None:
                threads = _assigned_threads()
            if providers is None:
                providers = _assigned_providers(cuda_library)
            loading: Model = _Loading(model, bar) if isinstance(model, StoredModel) else model
            sess_options = _sharing_packed_weights(sess_options)
            super().__init__(loading, threads=threads, providers=providers, sess_options=sess_options, **arguments)
            bar.step()
        if metrics and ray.is_initialized():
            self._metrics = _Metrics(name)

    def _counted(self, counters: Counters) -> None:
        if self._metrics is not None:
            self._metrics.add(counters)

    def _arrow_column(self, rows: Any, name: str) -> Any:
        # Ray's own tensor type: what its other operators and its arrays of numpy expect of a column.
        if self._form == "fixed_shape_tensor" and getattr(rows, "ndim", 1) > 1 and rows.dtype.kind in "biuf":
            return importlib.import_module("ray.data.extensions").ArrowTensorArray.from_numpy(rows)
        return super()._arrow_column(rows, name)
