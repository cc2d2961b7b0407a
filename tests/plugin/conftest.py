"""Registers the plugin once for all tests; afterwards nothing of it is left."""
import gc

import onnxruntime
import pytest
import sim


@pytest.fixture(scope="session")
def registered():
    api = sim.TestApi()
    assert api.live() == dict.fromkeys(sim.LIVE, 0)
    onnxruntime.register_execution_provider_library("tenon_sim", sim.LIBRARY)
    yield api
    gc.collect()
    onnxruntime.unregister_execution_provider_library("tenon_sim")
    assert api.live() == dict.fromkeys(sim.LIVE, 0), "unregistering leaves nothing behind"


@pytest.fixture
def api(registered):
    """The test interface; the test leaves as many live objects as it found, and no order was violated."""
    gc.collect()
    before = registered.live()
    violations = registered.counter("total_order_violations")
    yield registered
    registered.disarm()
    gc.collect()
    assert registered.live() == before
    assert registered.counter("total_order_violations") == violations
