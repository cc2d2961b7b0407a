"""The dependencies, exported symbols and size of libtenon. Run with TENON_LIBRARY set to the shared library."""
import os
import re
import shutil
import subprocess

import pytest

LIBRARY = os.environ.get("TENON_LIBRARY", "")
ALLOWED = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_needs_only_the_c_and_cpp_runtime():
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", LIBRARY)))
    assert needed, "readelf found no NEEDED entry"
    assert needed <= ALLOWED


# What a program written for libonnxruntime looks up (dlsym or the loader), and nothing more of C.
C_SYMBOLS = {"OrtGetApiBase", "OrtSessionOptionsAppendExecutionProvider_CPU"}


def test_shows_the_two_c_functions_without_a_version():
    rows = [line.split() for line in output("readelf", "--dyn-syms", "--wide", LIBRARY).splitlines()]
    names = {row[7] for row in rows if len(row) > 7 and row[6] != "UND" and row[4] == "GLOBAL"}
    assert {name for name in names if not name.startswith("_Z")} == C_SYMBOLS


def test_shows_only_tenons_own_symbols():
    names = [line.split(maxsplit=2)[2] for line in output("nm", "-DC", "--defined-only", LIBRARY).splitlines()]
    assert any(name.startswith("tenon::Session::load") for name in names)
    foreign = [name for name in names
               if not re.match(r"((vtable|typeinfo|typeinfo name|guard variable) for )?tenon::|(non-)?virtual thunk to tenon::", name)]
    assert set(foreign) == C_SYMBOLS


def test_stripped_library_is_below_nine_megabytes(tmp_path):
    stripped = tmp_path / "libtenon.so"
    shutil.copy(LIBRARY, stripped)
    subprocess.run(["strip", str(stripped)], check=True)
    size = stripped.stat().st_size
    print(f"libtenon, stripped: {size / 1e6:.2f} MB")
    assert size < 9_000_000


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
