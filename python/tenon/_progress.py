"""A line on the terminal while something takes long."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

# What is shorter is not worth a line.
DELAY_S = 1.0
_STEP_S = 0.25


class Progress:
    """While the block takes more than a second, a line on stderr says what and how long; it is gone afterwards.

    Nothing is written where stderr is no terminal.
    """

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = sys.stderr if stream is None else stream
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        try:
            is_terminal = self._stream is not None and self._stream.isatty()
        except ValueError:  # a closed stream
            is_terminal = False
        if is_terminal:
            self._thread = threading.Thread(target=self._show, name="tenon progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        begin = time.monotonic()
        width = 0
        while not self._done.wait(DELAY_S if width == 0 else _STEP_S):
            line = f"{self._what}: {time.monotonic() - begin:.0f} s"
            width = max(width, len(line))
            self._write("\r" + line)
        if width > 0:
            self._write("\r" + " " * width + "\r")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            pass  # a terminal that is gone is no reason to fail
