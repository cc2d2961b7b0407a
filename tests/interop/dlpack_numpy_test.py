"""DLPack between Tenon and numpy, there and back, without a copy."""
import ctypes
import gc
import os
import weakref

import numpy as np
import pytest

helper = ctypes.CDLL(os.environ["TENON_DLPACK_HELPER"])
for name in ("make_ramp", "export", "export_unversioned", "import", "data"):
    getattr(helper, "helper_" + name).restype = ctypes.c_void_p
helper.helper_last_error.restype = ctypes.c_char_p
helper_import = getattr(helper, "helper_import")
pointer = ctypes.c_void_p

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [pointer, ctypes.c_char_p, pointer]
api.PyCapsule_GetPointer.restype = pointer
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor_versioned"


class Exporter:
    """What numpy's from_dlpack asks for."""

    def __init__(self, tensor, read_only=False, versioned=True):
        self.tensor, self.read_only, self.versioned = tensor, read_only, versioned

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        if self.versioned:
            managed = helper.helper_export(pointer(self.tensor), int(self.read_only))
            return api.PyCapsule_New(managed, b"dltensor_versioned", None)
        return api.PyCapsule_New(helper.helper_export_unversioned(pointer(self.tensor)), b"dltensor", None)


def take(array, allow_read_only=False):
    """Tenon's tensor over the array's memory; the capsule is used up on success."""
    capsule = array.__dlpack__(max_version=(1, 0))
    managed = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    tensor = helper_import(pointer(managed), int(allow_read_only))
    if tensor:
        api.PyCapsule_SetName(capsule, USED)
    return tensor


@pytest.mark.parametrize("versioned", [True, False])
def test_numpy_sees_tenons_memory_and_keeps_it(versioned):
    tensor = helper.helper_make_ramp(ctypes.c_int64(3), ctypes.c_int64(4))
    address = helper.helper_data(pointer(tensor))
    array = np.from_dlpack(Exporter(tensor, versioned=versioned))
    helper.helper_release(pointer(tensor))
    assert array.ctypes.data == address
    np.testing.assert_array_equal(array, np.arange(12, dtype=np.float32).reshape(3, 4))


def test_a_read_only_tensor_is_a_read_only_array():
    tensor = helper.helper_make_ramp(ctypes.c_int64(2), ctypes.c_int64(2))
    array = np.from_dlpack(Exporter(tensor, read_only=True))
    assert not array.flags.writeable
    helper.helper_release(pointer(tensor))


@pytest.mark.parametrize("dtype, number", [("float32", 1), ("uint8", 2), ("int64", 7), ("bool", 9), ("float16", 10),
                                           ("float64", 11), ("complex128", 15)])
def test_tenon_sees_numpys_memory_and_lets_go_of_it_once(dtype, number):
    array = np.zeros((2, 3), dtype=dtype)
    alive = weakref.ref(array)
    tensor = take(array)
    assert helper.helper_data(pointer(tensor)) == array.ctypes.data
    assert helper.helper_type(pointer(tensor)) == number
    del array
    gc.collect()
    assert alive() is not None, "the tensor keeps the array alive"
    helper.helper_release(pointer(tensor))
    gc.collect()
    assert alive() is None


def test_what_is_refused_stays_numpys():
    array = np.zeros((4, 4), dtype=np.float32)
    assert not take(array.T[:, :2])
    assert b"stride" in helper.helper_last_error()
    array.flags.writeable = False
    assert not take(array)
    assert b"read-only" in helper.helper_last_error()
    tensor = take(array, allow_read_only=True)
    assert tensor
    helper.helper_release(pointer(tensor))
    alive = weakref.ref(array)
    del array
    gc.collect()
    assert alive() is None
