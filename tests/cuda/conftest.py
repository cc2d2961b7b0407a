"""Fixtures of the tests on a GPU; a folder whose tests all skip counts as passed."""
import pytest


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session")
def device():
    from gpu_sessions import find_devices
    return find_devices()[0]


@pytest.fixture(scope="session")
def model():
    from gpu_sessions import make_model
    return make_model()


@pytest.fixture(scope="session")
def expected(model):
    import onnxruntime
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]
