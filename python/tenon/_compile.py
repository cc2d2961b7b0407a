"""Models that are compiled ahead of time, with onnxruntime's names."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable

from tenon._core import GraphOptimizationLevel, NativeModelCompiler, OrtEpContextData, OrtValue, SessionOptions


class OrtCompileApiFlags(enum.IntFlag):
    """Flags of ModelCompiler."""

    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class OrtExternalInitializerInfo:
    """Where an initializer lies in a file: the path beside the model, and an offset and a size in bytes."""

    def __init__(self, filepath: str, file_offset: int, byte_size: int) -> None:
        self.filepath = filepath
        self.file_offset = file_offset
        self.byte_size = byte_size


GetInitializerLocationFunc = Callable[
    [str, OrtValue, OrtExternalInitializerInfo | None], OrtExternalInitializerInfo | None
]


class ModelCompiler:
    """Compiles a model for the providers of session options.

    What a provider compiles becomes a node of operator EPContext, with the compiled program in it or in a file beside the
    model, so that a later session of the same provider need not compile again. What no provider compiles stays as it is;
    the CPU provider compiles nothing.
    """

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: GetInitializerLocationFunc | None = None,
    ) -> None:
        """Takes the model, and how the result is written.

        external_initializers_file_path: a file in the compiled model's folder for initializers of at least
        external_initializers_size_threshold bytes. get_initializer_location_func is called with each initializer's name and
        value, and its place in the input model's files or None; it gives the initializer's new place, whose bytes it has
        written, or None for an initializer that stays in the model. flags: a bitwise or of OrtCompileApiFlags.
        graph_optimization_level: accepted; what Tenon fuses and folds is no ONNX, and is not written.

        Errors: ValueError for an empty path or empty bytes, or both ways to place initializers; TypeError for other types.
        """
        model: str | bytes
        if isinstance(input_model_path_or_bytes, (str, os.PathLike)):
            model = os.fspath(input_model_path_or_bytes)
            if not model:
                raise ValueError("Input model path is empty")
        elif isinstance(input_model_path_or_bytes, bytes):
            model = input_model_path_or_bytes
            if not model:
                raise ValueError("Input model bytes array is empty")
        else:
            raise TypeError(f"Unable to load from type '{type(input_model_path_or_bytes)}'")
        external = external_initializers_file_path or ""
        if not isinstance(external, (str, os.PathLike)):
            raise TypeError(f"Output external initializer filepath is of unexpected type '{type(external)}'")
        if external and get_initializer_location_func is not None:
            raise ValueError(
                "Cannot initialize ModelCompiler with both `external_initializers_file_path` "
                "and `get_initializer_location_func`"
            )
        self._compiler = NativeModelCompiler(
            sess_options,
            model,
            embed_compiled_data_into_model,
            os.fspath(external),
            external_initializers_size_threshold,
            int(flags),
            graph_optimization_level,
            _locator(get_initializer_location_func),
        )

    def compile_to_file(self, output_model_path: str | os.PathLike[str] | None = None) -> None:
        """Writes the compiled model; without a path to the input's, with "_ctx.onnx" in the place of ".onnx"."""
        if output_model_path and not isinstance(output_model_path, (str, os.PathLike)):
            raise TypeError(f"Output model's filepath is of unexpected type '{type(output_model_path)}'")
        self._compiler.compile_to_file(os.fspath(output_model_path) if output_model_path else None)

    def compile_to_bytes(self) -> bytes:
        """The compiled model, serialised."""
        return self._compiler.compile_to_bytes()

    def compile_to_stream(self, write_function: Callable[[bytes], None]) -> None:
        """Calls write_function with the parts of the serialised model, in order. What it raises becomes the error Fail."""
        self._compiler.compile_to_stream(write_function)

    def set_ep_context_data_write_func(self, write_func: Callable[[str, OrtEpContextData], None]) -> None:
        """write_func gets the name and the data of each program that would lie in a file beside the model."""
        self._compiler.set_ep_context_data_write_func(write_func)

    def clear_ep_context_data_write_func(self) -> None:
        """The programs lie in files again."""
        self._compiler.clear_ep_context_data_write_func()

    def set_ep_context_binary_information(self, output_directory: str | os.PathLike[str], model_name: str) -> None:
        """Where providers put the files of their programs, and the name of the model that those files' names begin with.

        Errors: InvalidArgument for an empty argument, and for a path that is no directory.
        """
        self._compiler.set_ep_context_binary_information(os.fspath(output_directory), model_name)


def _locator(
    function: GetInitializerLocationFunc | None,
) -> Callable[[str, OrtValue, tuple[str, int, int] | None], tuple[str, int, int] | None] | None:
    if function is None:
        return None

    def locate(name: str, value: OrtValue, before: tuple[str, int, int] | None) -> tuple[str, int, int] | None:
        place = function(name, value, None if before is None else OrtExternalInitializerInfo(*before))
        if place is None:
            return None
        if not isinstance(place, OrtExternalInitializerInfo):
            raise TypeError(
                f"get_initializer_location_func gave {type(place)} for initializer {name!r}; "
                "it has to give an OrtExternalInitializerInfo or None"
            )
        return place.filepath, place.file_offset, place.byte_size

    return locate
