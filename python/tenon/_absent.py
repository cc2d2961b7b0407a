"""Names of onnxruntime's package that Tenon takes without effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenon._core import OrtMemoryInfo


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
