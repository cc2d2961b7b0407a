"""Names of onnxruntime's package for what Tenon does not have: using one raises NotImplemented and says so."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NoReturn

from tenon._core import NotImplemented as NotImplementedHere
from tenon._core import OrtMemoryInfo


def _refuse(what: str) -> NoReturn:
    raise NotImplementedHere(f"[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : {what}")


class SparseTensor:
    """Tenon has no sparse tensors."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        _refuse("Tenon has no sparse tensors: give the model a dense one.")

    @classmethod
    def sparse_coo_from_numpy(cls, *arguments: Any, **options: Any) -> SparseTensor:
        """Raises NotImplemented."""
        return cls()

    @classmethod
    def sparse_csr_from_numpy(cls, *arguments: Any, **options: Any) -> SparseTensor:
        """Raises NotImplemented."""
        return cls()


class OrtSparseFormat(enum.IntEnum):
    """Formats of sparse tensors."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class LoraAdapter:
    """Tenon has no LoRA adapters."""

    def Load(self, path: str) -> None:  # noqa: N802  (onnxruntime's name)
        """Raises NotImplemented."""
        _refuse("Tenon has no LoRA adapters.")


class AdapterFormat:
    """Tenon has no LoRA adapters."""

    def __init__(self, adapter: Any = None) -> None:
        _refuse("Tenon has no LoRA adapters.")

    @staticmethod
    def read_adapter(file_path: Any) -> AdapterFormat:
        """Raises NotImplemented."""
        _refuse("Tenon has no LoRA adapters.")


class OrtArenaCfg:
    """Settings of onnxruntime's arena. Tenon accepts them; its plans lay out each run's memory."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        names = ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk")
        given = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], Mapping) else dict(zip(names, arguments))
        settings = {**dict.fromkeys(names, -1), **given, **options}
        self.max_mem = int(settings["max_mem"])
        self.arena_extend_strategy = int(settings["arena_extend_strategy"])
        self.initial_chunk_size_bytes = int(settings["initial_chunk_size_bytes"])
        self.max_dead_bytes_per_chunk = int(settings["max_dead_bytes_per_chunk"])
        self.initial_growth_chunk_size_bytes = int(settings.get("initial_growth_chunk_size_bytes", -1))
        self.max_power_of_two_extend_bytes = int(settings.get("max_power_of_two_extend_bytes", -1))


def create_and_register_allocator(memory_info: OrtMemoryInfo, arena: OrtArenaCfg | None) -> None:
    """Accepted, and without effect: sessions share memory without an arena."""


def create_and_register_allocator_v2(
    provider: str, memory_info: OrtMemoryInfo, options: Mapping[str, str], arena: OrtArenaCfg | None
) -> None:
    """Accepted, and without effect."""
