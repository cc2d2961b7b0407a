"""What InferenceSession.explain returns."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any


def shapes_of(given: Mapping[str, Any]) -> dict[str, list[int]]:
    """Shapes by name, of shapes and of values that have one (arrays, OrtValues)."""
    shapes = {}
    for name, value in given.items():
        shape: Any = getattr(value, "shape", value)
        dims: Any = shape() if callable(shape) else shape
        shapes[name] = [int(dim) for dim in dims]
    return shapes


def _tensors(tensors: list[dict[str, Any]]) -> str:
    """ "float32[1,3] @128", one after the other."""
    texts = []
    for tensor in tensors:
        if tensor["dtype"] is not None:
            dims = "?" if tensor["shape"] is None else ",".join("?" if dim is None else str(dim) for dim in tensor["shape"])
            texts.append(f"{tensor['dtype']}[{dims}] {tensor['location'].get('text', '')}".strip())
    return ", ".join(texts)


class PlanReport:
    """A plan: print it for people, `data` for programs (docs/reference/plan-json.md has the keys).

    In a notebook it draws itself as a table of its steps.
    """

    def __init__(self, text: str, plan: str) -> None:
        self.text = text
        self.data: dict[str, Any] = json.loads(plan)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        steps, copies = len(self.data["steps"]), len(self.data["copies"])
        return f"<PlanReport of {steps} steps, {copies} copies with {self.data['bytes_copied']} bytes; print() shows it>"

    def _repr_html_(self) -> str:
        data = self.data
        arenas = ", ".join(f"{space['arena_bytes']:,} bytes in {space['name']}" for space in data["spaces"])
        head = f"{len(data['steps'])} steps; arenas: {arenas}; a run copies {data['bytes_copied']:,} bytes"
        rows = "".join(
            "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
            for cells in (
                (str(index), step["label"], step["kernel"], _tensors(step["inputs"]), _tensors(step["outputs"]))
                for index, step in enumerate(data["steps"])
            )
        )
        names = "".join(f"<th style='text-align:left'>{name}</th>" for name in ("", "step", "kernel", "reads", "writes"))
        return f"<p>{html.escape(head)}</p><table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>"
