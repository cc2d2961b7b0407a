"""What can be seen of an object through the ABI's own getters, as data."""
import ctypes

TYPES = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8, 14: 8, 15: 16, 16: 2, 17: 1, 18: 1, 19: 1, 20: 1}


class Getter:
    """Calls without names and pools: f("GetDimensionsCount", info, out=c_size_t) -> (status, value)."""

    def __init__(self, library):
        self.library = library

    def __call__(self, name, *arguments, out=None):
        function = self.library.functions[name]
        place = out() if out is not None else None
        values = list(arguments) + ([ctypes.addressof(place)] if out is not None else [])
        returned = self.library.raw(function)(*values)
        if function.returns in ("OrtStatus*", "OrtStatusPtr"):
            status = self.library.status(returned)
            return status, place.value if place is not None and status is None else None
        return None, place.value if place is not None else returned

    def text(self, name, *arguments):
        _, pointer = self(name, *arguments, out=ctypes.c_void_p)
        return ctypes.string_at(pointer).decode("latin-1") if pointer else None

    def release(self, name, pointer):
        self.library.raw(self.library.functions["Release" + name])(pointer)


def tensor_info(get, info):
    rank = get("GetDimensionsCount", info, out=ctypes.c_size_t)[1] or 0
    dims, names = (ctypes.c_int64 * (rank + 1))(), (ctypes.c_char_p * (rank + 1))()
    get("GetDimensions", info, ctypes.addressof(dims), rank)
    get("GetSymbolicDimensions", info, ctypes.addressof(names), rank)
    return {"type": get("GetTensorElementType", info, out=ctypes.c_int)[1], "dims": list(dims)[:rank],
            "names": [None if one is None else one.decode("latin-1") for one in list(names)[:rank]],
            "has_shape": bool(get("TensorTypeAndShape_HasShape", info)[1]),
            "elements": get("GetTensorShapeElementCount", info, out=ctypes.c_size_t)[1]}


def type_info(get, info, depth=0):
    kind = get("GetOnnxTypeFromTypeInfo", info, out=ctypes.c_int)[1]
    seen = {"kind": kind}
    place = ctypes.c_size_t()
    text = ctypes.c_void_p()
    get("GetDenotationFromTypeInfo", info, ctypes.addressof(text), ctypes.addressof(place))
    seen["denotation"] = ctypes.string_at(text.value, place.value).decode("latin-1") if text.value and place.value < 1000 else None
    if depth > 4:
        return seen
    if kind in (1, 5):
        tensor = get("CastTypeInfoToTensorInfo", info, out=ctypes.c_void_p)[1]
        seen["tensor"] = tensor_info(get, tensor) if tensor else None
    for number, cast, inner in ((2, "CastTypeInfoToSequenceTypeInfo", "GetSequenceElementType"), (3, "CastTypeInfoToMapTypeInfo", "GetMapValueType"),
                                (6, "CastTypeInfoToOptionalTypeInfo", "GetOptionalContainedTypeInfo")):
        if kind == number and (container := get(cast, info, out=ctypes.c_void_p)[1]):
            if number == 3:
                seen["key"] = get("GetMapKeyType", container, out=ctypes.c_int)[1]
            if contained := get(inner, container, out=ctypes.c_void_p)[1]:
                seen["contained"] = type_info(get, contained, depth + 1)
                get.release("TypeInfo", contained)
    return seen


def value(get, pointer, depth=0):
    status, kind = get("GetValueType", pointer, out=ctypes.c_int)
    seen = {"kind": kind, "status": status, "has": get("HasValue", pointer, out=ctypes.c_int)[1]}
    if kind == 1:
        status, info = get("GetTensorTypeAndShape", pointer, out=ctypes.c_void_p)
        if not info:
            return {**seen, "info": status}
        seen["tensor"] = tensor_info(get, info)
        get.release("TensorTypeAndShapeInfo", info)
        memory = get("GetTensorMemoryInfo", pointer, out=ctypes.c_void_p)[1]
        seen["memory"] = memory_info(get, memory) if memory else None
        count, size = seen["tensor"]["elements"], get("GetTensorSizeInBytes", pointer, out=ctypes.c_size_t)
        seen["bytes"] = size
        if seen["tensor"]["type"] == 8:
            texts = []
            for i in range(min(count or 0, 64)):
                length = get("GetStringTensorElementLength", pointer, i, out=ctypes.c_size_t)[1]
                buffer = ctypes.create_string_buffer((length or 0) + 1)
                get("GetStringTensorElement", pointer, length or 0, i, ctypes.addressof(buffer))
                texts.append(buffer.raw[:length].decode("latin-1"))
            seen["texts"] = texts
        elif size[1] is not None and 0 < size[1] <= 4096:
            data = get("GetTensorMutableData", pointer, out=ctypes.c_void_p)[1]
            # Memory of a device that the host cannot read: only sessions of a CPU make such values here.
            if data and seen["memory"] and seen["memory"]["device"] == 0:
                seen["data"] = ctypes.string_at(data, size[1]).hex()
    elif kind in (2, 3) and depth < 3:
        count = get("GetValueCount", pointer, out=ctypes.c_size_t)
        seen["count"] = count
        allocator = get("GetAllocatorWithDefaultOptions", out=ctypes.c_void_p)[1]
        for i in range(min(count[1] or 0, 8)):
            status, inner = get("GetValue", pointer, i, allocator, out=ctypes.c_void_p)
            seen[str(i)] = value(get, inner, depth + 1) if inner else status
            if inner:
                get.release("Value", inner)
    return seen


def memory_info(get, pointer):
    device = ctypes.c_int(-7)
    get("MemoryInfoGetDeviceType", pointer, ctypes.addressof(device))
    # Not the allocator's type, which differs everywhere: there is no arena in Tenon.
    return {"name": get.text("MemoryInfoGetName", pointer), "id": get("MemoryInfoGetId", pointer, out=ctypes.c_int)[1], "memory": get("MemoryInfoGetMemType", pointer, out=ctypes.c_int)[1],
            "device": device.value, "device_memory": get("MemoryInfoGetDeviceMemType", pointer)[1],
            "vendor": get("MemoryInfoGetVendorId", pointer)[1]}


def pairs(get, pointer):
    keys, values, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    get("GetKeyValuePairs", pointer, ctypes.addressof(keys), ctypes.addressof(values), ctypes.addressof(count))

    def texts(address):
        return [ctypes.string_at(one).decode("latin-1") for one in (ctypes.c_void_p * count.value).from_address(address)] if count.value else []

    return sorted(zip(texts(keys.value), texts(values.value)))


def session(get, pointer):
    seen = {}
    allocator = get("GetAllocatorWithDefaultOptions", out=ctypes.c_void_p)[1]
    for kind in ("Input", "Output", "OverridableInitializer"):
        count = get(f"SessionGet{kind}Count", pointer, out=ctypes.c_size_t)[1] or 0
        seen[kind] = []
        for i in range(count):
            name = get.text(f"SessionGet{kind}Name", pointer, i, allocator)
            info = get(f"SessionGet{kind}TypeInfo", pointer, i, out=ctypes.c_void_p)[1]
            seen[kind].append([name, type_info(get, info) if info else None])
            if info:
                get.release("TypeInfo", info)
    return seen


DESCRIBERS = {"OrtTensorTypeAndShapeInfo": tensor_info, "OrtTypeInfo": type_info, "OrtValue": value, "OrtMemoryInfo": memory_info,
              "OrtKeyValuePairs": pairs, "OrtSession": session}
