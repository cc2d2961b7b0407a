"""InferenceSession and IOBinding."""

from __future__ import annotations

import copyreg
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from tenon import _core
from tenon._core import Fence, NodeArg, OrtDevice, OrtValue, RunOptions, SessionOptions
from tenon._functions import OrtValueVector
from tenon._plan import PlanReport, shapes_of
from tenon._progress import Progress
from tenon._threads import default_threads

if TYPE_CHECKING:
    from tenon._native_session import NativeSession

_CPU = "CPUExecutionProvider"
# Programs ask for onnxruntime's provider, whose options Tenon's takes.
_SAME = {"CUDAExecutionProvider": "TenonCudaExecutionProvider"}
Provider = Union[str, tuple[str, Mapping[Any, Any]]]


@dataclass(frozen=True)
class ModelMetadata:
    """The metadata that a model's file holds."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


@dataclass(frozen=True)
class OrtEpAssignedNode:
    """A node of the model."""

    name: str
    domain: str
    op_type: str


@dataclass(frozen=True)
class OrtEpAssignedSubgraph:
    """Nodes that one execution provider runs together."""

    ep_name: str
    _nodes: list[OrtEpAssignedNode] = field(default_factory=list)

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """The nodes."""
        return self._nodes


def _texts(options: Mapping[Any, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in options.items()}


def _provider_list(
    providers: Sequence[Provider] | None, provider_options: Sequence[Mapping[Any, Any]] | None
) -> list[tuple[str, dict[str, str]]]:
    """Names with their options, each once. Errors: ValueError for lists that do not fit together."""
    if providers is None:
        return []
    if isinstance(providers, str):
        warnings.warn(f"'providers' is a list of names, and this is one string: '{providers}'.", stacklevel=4)
        providers = [providers]
    entries = list(providers)
    if provider_options is not None:
        if len(provider_options) != len(entries):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if not all(isinstance(entry, str) for entry in entries):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        if not all(isinstance(options, Mapping) for options in provider_options):
            raise ValueError("'provider_options' values must be dicts.")
        entries = [(str(name), options) for name, options in zip(entries, provider_options)]
    available = _core.get_available_providers()
    chosen: dict[str, dict[str, str]] = {}
    for entry in entries:
        if isinstance(entry, str):
            name, options = entry, {}
        elif isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], Mapping):
            name, options = entry[0], _texts(entry[1])
        else:
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        if name not in available and _SAME.get(name) in available:
            name = _SAME[name]
        if name in chosen:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
        elif name not in available:
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names."
                f"Available providers: '{', '.join(available)}'",
                stacklevel=4,
            )
        else:
            chosen[name] = options
    return list(chosen.items())


def _description(model: str | bytes) -> str:
    """A model in a few words, for people."""
    try:
        size_bytes = len(model) if isinstance(model, bytes) else os.path.getsize(model)
    except OSError:
        return str(model)
    name = "a model" if isinstance(model, bytes) else os.path.basename(model)
    return f"{name} ({size_bytes / 1e6:.1f} MB)"


class Session(_core.Session):
    """The base of InferenceSession."""


class InferenceSession(Session):
    """A model that is ready to run.

    path_or_bytes: the model's file, or its bytes. Its external data is looked for beside the file.
    sess_options: SessionOptions, or None.
    providers: names of execution providers in order of preference, or (name, options) tuples. A name that is not
        available is a warning, and left out; nodes that none of them takes run on the CPU.
    provider_options: a dictionary for each name in `providers`.

    Errors: NoSuchFile, InvalidProtobuf, InvalidGraph, NotImplemented and others of the package; TypeError for something
    that is no model. Sessions can be used by many threads at once, and pickled: by path, or with the bytes where there is
    no path.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        if "_model" not in self.__dict__:  # programs call it again to load another model
            super().__init__()
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._model: str | bytes = os.fspath(path_or_bytes)
        elif isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            self._model = bytes(path_or_bytes)
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._options = sess_options if sess_options is not None else SessionOptions()
        self._kwargs = kwargs
        self._enable_fallback = int(kwargs.get("enable_fallback", 1)) == 1
        self.set_providers(providers, provider_options)

    _component: _core._PackageComponent | None = None  # of a model package that the session is of
    _given_options = False  # and not the package's

    @classmethod
    def _of_package(cls, component: _core._PackageComponent, options: SessionOptions | None) -> InferenceSession:
        session = cls.__new__(cls)
        super().__init__(session)
        session._component = component
        session._model = b""
        session._kwargs = {}
        session._enable_fallback = False
        session._options = options if options is not None else SessionOptions()
        session._given_options = options is not None
        session._reload()
        session._providers = dict(session._options._provider_list()) or {component._ep: {}}
        session._providers.setdefault(_CPU, {})
        return session

    def _check_session_can_be_recreated(self, method_name: str) -> None:
        if self._component is not None:
            raise NotImplementedError(
                f"{method_name}() is not supported for sessions created from a model package. "
                "Create a new session with ModelPackageComponentContext.create_session() instead."
            )

    @property
    def _sess(self) -> NativeSession:
        from tenon._native_session import NativeSession

        return NativeSession.of(self)

    @property
    def _model_path(self) -> str | None:
        return self._model if isinstance(self._model, str) else None

    # Programs look at these of onnxruntime's package, although they are no part of its API.
    @property
    def _model_bytes(self) -> bytes | None:
        return self._model if isinstance(self._model, bytes) and self._component is None else None

    @property
    def _sess_options(self) -> SessionOptions:
        return self._options

    @property
    def _sess_options_initial(self) -> SessionOptions:
        return self._options

    @property
    def _provider_options(self) -> dict[str, dict[str, str]]:
        return self.get_provider_options()

    @property
    def _model_meta(self) -> ModelMetadata:
        return self.get_modelmeta()

    @property
    def _overridable_initializers(self) -> list[NodeArg]:
        return self.get_overridable_initializers()

    @property
    def _inputs_meta(self) -> list[NodeArg]:
        return self.get_inputs()

    @property
    def _outputs_meta(self) -> list[NodeArg]:
        return self.get_outputs()

    @property
    def inputs_meta(self) -> list[NodeArg]:
        """The same as get_inputs()."""
        return self.get_inputs()

    @property
    def outputs_meta(self) -> list[NodeArg]:
        """The same as get_outputs()."""
        return self.get_outputs()

    @property
    def model_meta(self) -> ModelMetadata:
        """The same as get_modelmeta()."""
        return self.get_modelmeta()

    def set_providers(
        self,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
    ) -> None:
        """Loads the model again for these execution providers; runs that have begun end with the old ones."""
        self._check_session_can_be_recreated("set_providers")
        try:
            chosen = _provider_list(providers, provider_options)
        except ValueError as error:
            if not self._enable_fallback:
                raise
            warnings.warn(f"{error} The session uses {_CPU} alone.", stacklevel=3)
            chosen = [(_CPU, {})]
        if chosen and self._options.has_providers():
            warnings.warn(
                "Specified 'providers'/'provider_options' when creating InferenceSession but SessionOptions has already "
                "been configured with providers. InferenceSession will only use the providers passed to "
                "InferenceSession().",
                stacklevel=3,
            )
        self._chosen = chosen
        self._reload()
        used = chosen or self._options._provider_list()
        self._providers = dict(used)
        if _CPU not in self._providers:
            self._providers[_CPU] = {}

    def _reload(self) -> None:
        if self._component is not None:
            self._component._load(self, self._options if self._given_options else None, default_threads())
            return
        with Progress(f"tenon: loading {_description(self._model)}"):
            self._load(self._model, self._options, self._chosen, default_threads())

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """The names of the execution providers of this session, in order of preference."""
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each execution provider."""
        return {name: dict(options) for name, options in self._providers.items()}

    def get_modelmeta(self) -> ModelMetadata:
        """The metadata of the model."""
        return ModelMetadata(*self._metadata())

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """Which provider runs which nodes. The option "session.record_ep_graph_assignment_info" has to be "1"."""
        return [
            OrtEpAssignedSubgraph(ep, [OrtEpAssignedNode(*node) for node in nodes])
            for ep, nodes in self._assignments()
        ]

    def explain(self, shapes: Mapping[str, Any] | None = None) -> PlanReport:
        """The plan of runs with inputs of these shapes: steps, kernels, layouts, memory, and every copy with its reason.

        shapes: for an input's name its shape or an array of that shape. Inputs that are not in it have the shape that the
            model declares. Nothing runs. Errors: NotFound for a wrong name, InvalidArgument for a wrong or missing shape.
        """
        return PlanReport(*self._plan(shapes_of(shapes or {})))

    def get_profiling_start_time_ns(self) -> int:
        """When the profile began, as time.monotonic_ns() counts."""
        return self._profiling_start_ns()

    def enable_fallback(self) -> None:
        """Accepted: a run that fails raises its error."""
        self._check_session_can_be_recreated("enable_fallback")
        self._enable_fallback = True

    def disable_fallback(self) -> None:
        """Accepted: a run that fails raises its error."""
        self._enable_fallback = False

    def get_tuning_results(self) -> list[Any]:
        """An empty list: Tenon has no tuning results."""
        return []

    def set_tuning_results(self, results: Iterable[Any], *, error_on_invalid: bool = False) -> None:
        """Accepted, and without effect."""

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Accepted: Tenon's sessions release captured graphs themselves."""

    def io_binding(self) -> IOBinding:
        """A new IOBinding for this session."""
        return IOBinding(self)

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        fetch_devices: Sequence[OrtDevice] | None = None,
    ) -> None:
        """Runs with lists of names and values; the results become the contents of `fetches`."""
        fetches[:] = self.run_with_ort_values(fetch_names, dict(zip(feed_names, feeds)), run_options)

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """New memory for a tensor on a device."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def __reduce__(self) -> Any:
        if self._component is not None:
            raise TypeError("A session of a model package cannot be pickled: make another with create_session().")
        kind = type(self)
        if hasattr(kind, "__setstate__"):
            # Programs have made sessions of onnxruntime's picklable in this way: the state has what __init__ takes.
            state = self.__getstate__() if hasattr(kind, "__getstate__") else self.__dict__
            return copyreg.__newobj__, (kind,), state  # type: ignore[attr-defined]
        providers = [(name, options) for name, options in self._providers.items()]
        others = {name: value for name, value in self.__dict__.items() if name not in _KEPT}
        return _restore, (kind, self._model, self._options, providers, self._kwargs), others or None


# What a session is made anew of; other attributes are a program's.
_KEPT = {"_model", "_options", "_kwargs", "_enable_fallback", "_chosen", "_providers"}


def _restore_options(
    attributes: dict[str, Any], providers: list[tuple[str, dict[str, str]]], calls: list[tuple[str, tuple[Any, ...]]]
) -> SessionOptions:
    options = SessionOptions()
    for name, value in attributes.items():
        setattr(options, name, value)
    for provider in providers:
        options.add_provider(*provider)
    for function, arguments in calls:
        getattr(options, function)(*arguments)
    return options


def _restore(
    kind: type[InferenceSession],
    model: str | bytes,
    options: SessionOptions,
    providers: list[Provider],
    kwargs: dict[str, Any],
) -> InferenceSession:
    session = kind.__new__(kind)
    InferenceSession.__init__(session, model, options, providers, **kwargs)
    return session


class IOBinding:
    """Memory for the inputs and outputs of a session's runs, bound once and used by each run.

    A bound array is read, and a bound output written, where it lies. The binding keeps arrays and OrtValues alive; memory
    that is bound by its address the caller keeps.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._iobinding = _core.SessionIOBinding(session)

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an array as an input. One that is not contiguous is copied."""
        self._iobinding.bind_input(name, arr_on_cpu)

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds memory at an address. The type is numpy's, or ONNX's number."""
        self._iobinding.bind_input(name, OrtDevice.make(device_type, device_id), element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value as an input."""
        self._iobinding.bind_ortvalue_input(name, ortvalue)

    def synchronize_inputs(self) -> None:
        """Waits until devices have what was bound."""
        self._iobinding.synchronize_inputs()

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Binds memory at an address as an output; without an address each run makes it on that device."""
        device = OrtDevice.make(device_type, device_id)
        if buffer_ptr is None:
            self._iobinding.bind_output(name, device)
            return
        if element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._iobinding.bind_output(name, device, element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value whose memory a run writes."""
        self._iobinding.bind_ortvalue_output(name, ortvalue)

    def synchronize_outputs(self) -> None:
        """Waits until devices have written the outputs."""
        self._iobinding.synchronize_outputs()

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return self._iobinding.get_outputs()

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """The same as an OrtValueVector."""
        return OrtValueVector(self._iobinding.get_outputs())

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of the outputs of the last run, as arrays."""
        return self._iobinding.copy_outputs_to_cpu()

    def clear_binding_inputs(self) -> None:
        """Unbinds all inputs."""
        self._iobinding.clear_binding_inputs()

    def clear_binding_outputs(self) -> None:
        """Unbinds all outputs."""
        self._iobinding.clear_binding_outputs()
