"""Where the extension is not there and cannot be built, the tests are skipped, all by ctest (SKIP_RETURN_CODE)."""
import importlib.util
import pathlib
import sysconfig

import pytest


def pytest_sessionfinish(session, exitstatus):
    # A file that skips as a whole, because its package is not installed, is skipped and no failure.
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = 77


def pytest_configure():
    if importlib.util.find_spec("tenon") is not None:
        return
    if not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists():
        pytest.exit("skipped: there are no headers of this Python (Debian: python3-dev)", returncode=77)
    if importlib.util.find_spec("nanobind") is None:
        pytest.exit("skipped: nanobind is not installed (requirements.txt)", returncode=77)
