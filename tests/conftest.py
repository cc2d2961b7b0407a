"""Fixtures that tests of several folders share."""

import pytest
import stock


@pytest.fixture(scope="session")
def reference():
    """The library of the stock onnxruntime that the C API header describes."""
    return stock.library()
