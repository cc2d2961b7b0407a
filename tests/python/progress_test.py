"""The line that says that loading takes long: on a terminal, after a second, and gone at the end."""
import io
import os
import pty
import re
import subprocess
import sys
import threading
import time

import pytest
import tenon
from tenon import _progress, _session

import models


class Terminal(io.StringIO):
    def __init__(self):
        super().__init__()
        self.shown = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        super().write(text)
        self.shown.set()


def test_a_line_appears_after_the_delay_and_goes(monkeypatch):
    monkeypatch.setattr(_progress, "DELAY_S", 0.02)
    monkeypatch.setattr(_progress, "_STEP_S", 0.01)
    terminal = Terminal()
    with _progress.Progress("loading x", terminal):
        assert terminal.shown.wait(60)
    written = terminal.getvalue()
    line = re.match(r"\rloading x: \d+ s", written)
    assert line and re.search(r"\r {%d,}\r$" % (len(line[0]) - 1), written)


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO(), None])
def test_nothing_is_written_for_what_is_short_or_no_terminal(stream, monkeypatch):
    monkeypatch.setattr(_progress, "DELAY_S", 3600 if isinstance(stream, Terminal) else 0)
    monkeypatch.setattr(sys, "stderr", stream)
    with _progress.Progress("x", stream):
        time.sleep(0.05 if not isinstance(stream, Terminal) else 0)
    assert stream is None or stream.getvalue() == ""


def test_an_error_passes_and_ends_the_line(monkeypatch):
    monkeypatch.setattr(_progress, "DELAY_S", 0.01)
    terminal = Terminal()
    with pytest.raises(KeyError), _progress.Progress("x", terminal):
        assert terminal.shown.wait(60)
        raise KeyError
    assert terminal.getvalue().endswith("\r")


def test_a_closed_stream_is_no_error():
    stream = Terminal()
    stream.close()
    with _progress.Progress("x", stream):
        pass


def test_sessions_describe_what_they_load(tmp_path):
    path = tmp_path / "big.onnx"
    path.write_bytes(models.one_node("Neg"))
    assert _session._description(str(path)) == "big.onnx (0.0 MB)" and _session._description(b"x" * 2_000_000) == "a model (2.0 MB)"
    assert _session._description("/nowhere/x.onnx") == "/nowhere/x.onnx"
    program = f"""
import threading
from tenon import _progress, InferenceSession
_progress.DELAY_S = 0
shown, write = threading.Event(), _progress.Progress._write
_progress.Progress._write = lambda *arguments: (write(*arguments), shown.set())
InferenceSession._load = lambda *arguments: shown.wait(60)
InferenceSession({str(path)!r})
"""
    reader, writer = pty.openpty()
    done = subprocess.run([sys.executable, "-c", program], stderr=writer, timeout=100)
    os.close(writer)
    shown = b""
    try:
        while part := os.read(reader, 1000):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(reader)
    assert done.returncode == 0 and re.search(rb"\rtenon: loading big\.onnx \(0\.0 MB\): \d+ s\r", shown)
    with pytest.raises(tenon.NoSuchFile):
        tenon.InferenceSession("/nowhere/x.onnx")


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
