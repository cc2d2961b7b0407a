"""onnxruntime's native session, which lies beneath its InferenceSession as `_sess`, and which some programs use instead.

The arguments are in another order there than those of InferenceSession, and a model is loaded by a second call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tenon._core import NodeArg, OrtDevice, OrtValue, RunOptions, SessionIOBinding, SessionOptions
from tenon._functions import OrtValueVector
from tenon._session import InferenceSession, ModelMetadata


class NativeSession:
    """What onnxruntime.capi.onnxruntime_pybind11_state has as InferenceSession."""

    def __init__(self, options: SessionOptions, model: str | bytes, from_file: bool, read_config: bool = False) -> None:
        self._options, self._model = options, model
        self._loaded: InferenceSession | None = None

    @classmethod
    def of(cls, session: InferenceSession) -> NativeSession:
        """The native side of a session."""
        made = cls(session.get_session_options(), session._model, False)
        made._loaded = session
        return made

    def initialize_session(
        self,
        providers: Sequence[str] = (),
        provider_options: Sequence[Mapping[str, str]] = (),
        disabled_optimizers: Iterable[str] = (),
    ) -> None:
        """Loads the model."""
        self._loaded = InferenceSession(
            self._model,
            self._options,
            list(providers) or None,
            list(provider_options) or None,
            disabled_optimizers=disabled_optimizers,
        )

    @property
    def _session(self) -> InferenceSession:
        if self._loaded is None:
            raise RuntimeError("The session has no model yet: call initialize_session first.")
        return self._loaded

    def run(
        self, output_names: Sequence[str], input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """Arrays in and out."""
        return self._session.run(output_names, input_feed, run_options)

    def run_with_ort_values(
        self, input_feed: Mapping[str, OrtValue], output_names: Sequence[str], run_options: RunOptions | None = None
    ) -> OrtValueVector:
        """OrtValues in and out."""
        return OrtValueVector(self._session.run_with_ort_values(output_names, input_feed, run_options))

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        fetch_devices: Sequence[OrtDevice] | None = None,
    ) -> None:
        """Lists of names and values; the results become the contents of `fetches`."""
        self._session.run_with_ortvaluevector(run_options, feed_names, feeds, fetch_names, fetches, fetch_devices)

    def run_with_iobinding(self, binding: SessionIOBinding, run_options: RunOptions | None = None) -> None:
        """What is bound."""
        self._session.run_with_iobinding(binding, run_options)

    def run_async(
        self,
        output_names: Sequence[str],
        input_feed: Mapping[str, Any],
        callback: Any,
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Starts a run and returns."""
        self._session.run_async(output_names, input_feed, callback, user_data, run_options)

    @property
    def inputs_meta(self) -> list[NodeArg]:
        """What a run takes."""
        return self._session.get_inputs()

    @property
    def outputs_meta(self) -> list[NodeArg]:
        """What a run gives."""
        return self._session.get_outputs()

    @property
    def overridable_initializers(self) -> list[NodeArg]:
        """Initializers that a run may replace."""
        return self._session.get_overridable_initializers()

    @property
    def model_meta(self) -> ModelMetadata:
        """The model's metadata."""
        return self._session.get_modelmeta()

    @property
    def session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    @property
    def input_meminfos(self) -> list[Any]:
        """Where each input is wanted."""
        return self._session.get_input_memory_infos()

    @property
    def output_meminfos(self) -> list[Any]:
        """Where each output is made."""
        return self._session.get_output_memory_infos()

    @property
    def input_epdevices(self) -> list[Any]:
        """The device whose provider wants each input."""
        return self._session.get_input_epdevices()

    @property
    def get_profiling_start_time_ns(self) -> int:
        """When the profile began."""
        return self._session.get_profiling_start_time_ns()

    def __getattr__(self, name: str) -> Any:
        # Functions that are the same in both: get_providers, end_profiling, set_ep_dynamic_options, ...
        if name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self._session, name)
