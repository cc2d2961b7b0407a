"""What the jobs share: the installed tree with a home folder around it, a bare environment, and the commands of a page.

TENON_TREE is the installed tree (jobs.install); TENON_CXX_COMPILER, TENON_C_COMPILER and TENON_CMAKE the tools of the
build. Sources come from the pages of docs/ and from the examples that are installed.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# The commands of a page that a job runs; other indented lines are what they print, or make the build and its models.
COMMAND = re.compile(r"(tenon|g\+\+|cc|gcc|cmake -S|cmake --build|readelf|export|LD_LIBRARY_PATH=\S+|\./(?!dev)\S+|"
                     r"build/examples/\S+)(\s|$)")


class Desk:
    """A user's folder: HOME, with the installed tree as `tenon` in it, so that a page's own paths are right."""

    def __init__(self, folder):
        self.folder = folder
        self.tree = folder / "tenon"
        self.tree.symlink_to(os.environ["TENON_TREE"])
        self.library = next(self.tree.glob("lib*/**/pkgconfig")).parent
        # No variable of the caller's: nothing but the tree, the system and the developer's compiler can be found.
        self.environment = {"HOME": str(folder), "PATH": f"{self.tree}/bin:/usr/bin:/bin",
                            "PKG_CONFIG_PATH": str(self.library / "pkgconfig")}

    def call(self, *command, **variables):
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300,
                              cwd=self.folder, env={**self.environment, **variables})

    def output(self, *command, **variables):
        """The standard output of a command that succeeds."""
        done = self.call(*command, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def follow(self, commands):
        """Runs the commands of a page in one shell, which stops at the first that fails; all that they print."""
        return self.output("bash", "-euc", "\n".join(commands))

    def examples(self):
        """A copy of the installed examples, which the user may change and build in."""
        copy = self.folder / "examples"
        if not copy.exists():
            shutil.copytree(next(self.tree.rglob("share/doc/tenon/examples")), copy)
        return copy

    def built(self, program):
        """The program, whose libraries are all of the tree or of the system."""
        for path in re.findall(r"=> (/\S+)", self.output("ldd", program)):
            real = pathlib.Path(path).resolve()
            assert real.is_relative_to(os.environ["TENON_TREE"]) or str(real).startswith(("/usr/", "/lib")), path
        return program

    def compile(self, source, *flags):
        """Compiles one source as the pages say: with pkg-config's flags and a run path."""
        compiler = os.environ["TENON_C_COMPILER" if source.suffix == ".c" else "TENON_CXX_COMPILER"]
        program = self.folder / source.stem
        if source.suffix != ".c":
            flags = ("-std=c++20", *flags)  # pkg-config leaves the standard to the program
        self.output(compiler, "-O1", "-Wall", "-Wextra", "-Werror", source, "-o", program, *flags,
                    *self.output("pkg-config", "--cflags", "--libs", "tenon").split(), f"-Wl,-rpath,{self.library}")
        return self.built(program)


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.fixture
def model(desk):
    """x float32[batch,1,8,8] -> y float32[batch,2,8,8]: Conv and Relu."""
    path = desk.folder / "small.onnx"
    subprocess.run([sys.executable, SOURCE / "tests/api/make_model.py", path], check=True)
    return path


@pytest.fixture
def fetched(desk):
    """build/models as a checkout has it, for pages that name it."""
    models = pathlib.Path(os.environ.get("TENON_MODELS") or "/nonexistent")
    if not models.is_dir():
        pytest.skip("TENON_MODELS names no folder of models")
    (desk.folder / "build").mkdir()
    (desk.folder / "build/models").symlink_to(models.resolve())
    return models


def page(name):
    return (SOURCE / "docs" / name).read_text()


def source_of(text, name):
    """The code block of a page behind the words that save it as `name`."""
    return re.search(rf"as\s+`{re.escape(name)}`.*?^```\w+\n(.*?)^```", text, re.S | re.M)[1]


def commands_of(text):
    """The commands of a page's indented blocks, in their order."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    lines = re.sub(r"\\\n\s*", "", outside).splitlines()
    return [line.strip() for line in lines
            if line.startswith("    ") and COMMAND.match(line.strip()) and "build/release" not in line]
