"""Builds the package's extension over a libtenon, into a folder that the other tests have on their path."""
import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_the_extension_builds_and_imports():
    source, package = Path(os.environ["TENON_SOURCE"]), Path(os.environ["TENON_PACKAGE"])
    cmake, build = os.environ.get("TENON_CMAKE", "cmake"), package / "build"
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if subprocess.call(["which", "ccache"], stdout=subprocess.DEVNULL) == 0 else []
    subprocess.run([cmake, "-S", source / "python", "-B", build, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}",
                    f"-DTENON_LIBRARY={os.environ['TENON_LIBRARY']}", *launcher], check=True)
    subprocess.run([cmake, "--build", build], check=True)
    folder = package / "tenon"
    folder.mkdir(exist_ok=True)
    wanted = {file.name: file for file in [*(source / "python" / "tenon").iterdir(), *build.glob("_core*.so")]
              if file.name != "__pycache__"}
    for old in folder.iterdir():
        if old.is_symlink() and old.name not in wanted:
            old.unlink()
    for name, file in wanted.items():
        link = folder / name
        if not link.is_symlink() or link.resolve() != file.resolve():
            link.unlink(missing_ok=True)
            link.symlink_to(file)
    done = subprocess.run([sys.executable, "-c", "import tenon; print(tenon.get_available_providers())"],
                          env={**os.environ, "PYTHONPATH": str(package)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "CPUExecutionProvider" in done.stdout


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
