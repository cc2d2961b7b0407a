"""A libonnxruntime as ctypes sees it: calls by name with plain arguments, results as data that two processes can compare.

Arguments (JSON): None for null, an int, or a dict of one key: "text" (latin-1), "object" (an id), "objects", "texts", "numbers",
"bytes" (latin-1), "room" (a place for so many results), "callback" (a name), "fetches" (ids or None)."""
import ctypes
import os

import signatures

C = {"int": ctypes.c_int, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64,
     "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t, "float": ctypes.c_float, "bool": ctypes.c_bool, "char": ctypes.c_char}
GUARD = 64  # bytes after each place for results, which must stay as they are
POISON = 0xA5
UNSET = int.from_bytes(bytes([POISON]) * 8, "little")
ROOM = {"out_new", "out_borrowed", "out_text", "out_allocated_text", "out_number", "out_pointer", "out_borrowed_array", "out_borrowed_texts",
        "out_borrowed_numbers", "out_objects", "out_texts", "out_texts_same", "out_numbers", "out_numbers_same", "out_bytes", "out_sized_text",
        "out_sized_numbers", "out_allocation", "out_element", "out_provider_list", "out_packed_names", "out_lengths",
        "out_allocated_values", "out_allocated_texts"}
# An argument of these functions belongs to another object once they have succeeded.
TAKEN_OVER = {("AddNodeToGraph", "node"), ("AddGraphToModel", "graph"), ("SetGraphInputs", "inputs"), ("SetGraphOutputs", "outputs"),
              ("AddInitializerToGraph", "tensor"), ("CreateTensorWithDataAndDeleterAsOrtValue", "p_data")}
# And these are copied and released: both libraries would read memory that is gone.
USED_UP = {("CreateNode", "attributes")}


def width(base):
    if base in signatures.ENUMS:
        return 4
    return signatures.NUMBERS.get(base, 8)


class Object:
    def __init__(self, identity, kind, pointer, owned, parents):
        self.identity, self.kind, self.pointer, self.owned, self.parents = identity, kind, pointer, owned, frozenset(parents)


class Library:
    def __init__(self, path):
        self.functions = signatures.functions()
        self.image = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        base = self.image.OrtGetApiBase
        base.restype = ctypes.c_void_p
        get = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(ctypes.c_void_p.from_address(base()).value)
        self.tables = {"OrtApi": get(self.version())}
        for table in signatures.TABLES[1:]:
            self.tables[table] = self.entry(self.functions["Get" + table.removeprefix("Ort")], ctypes.c_void_p)()
        self.entries, self.objects, self.kept = {}, {}, []
        self.callbacks = {}

    @staticmethod
    def version():
        return int(next(line.split()[2] for line in open(signatures.ABI.parents[1] / "include/tenon/onnxruntime_c_api.h")
                        if line.startswith("#define ORT_API_VERSION ")))

    def entry(self, function, restype, *types):
        address = ctypes.c_void_p.from_address(self.tables[function.table] + 8 * function.slot).value
        return ctypes.CFUNCTYPE(restype, *types)(address)

    def raw(self, function):
        if function.name not in self.entries:
            types = [C.get(p.base, ctypes.c_int if p.base in signatures.ENUMS else ctypes.c_void_p)
                     if p.role in ("number", "length", "enum") else ctypes.c_void_p for p in function.parameters]
            if function.returns == "void":
                restype = None
            elif "*" in function.returns or function.returns in signatures.TYPEDEFS:
                restype = ctypes.c_void_p
            else:
                restype = C.get(function.returns, ctypes.c_int)
            self.entries[function.name] = self.entry(function, restype, *types)
        return self.entries[function.name]

    def keep(self, buffer):
        self.kept.append(buffer)  # programs may hand over memory that a value then reads for the rest of the process
        return ctypes.addressof(buffer)

    def place(self, size):
        buffer = (ctypes.c_ubyte * (size + GUARD))(*[POISON] * (size + GUARD))
        self.keep(buffer)
        return buffer

    def pointer_of(self, identity):
        return None if identity is None else self.objects[identity].pointer

    def missing(self, arguments):
        """Objects that this side does not have, because an earlier call went otherwise."""
        wanted = []
        for argument in arguments:
            if isinstance(argument, dict):
                for key in ("object", "objects", "fetches"):
                    value = argument.get(key, [])
                    wanted += value if isinstance(value, list) else [value]
        return [one for one in wanted if one is not None and one not in self.objects]

    def lower(self, parameter, argument):
        """(what ctypes passes, the buffer that receives results)"""
        if argument is None:
            return None, None
        if isinstance(argument, (int, bool)):
            if parameter.role in ("number", "length", "enum"):
                kind = C.get(parameter.base, ctypes.c_int)
                return kind(argument & (2 ** (8 * width(parameter.base)) - 1) if parameter.base not in ("bool", "float") else argument), None
            return argument, None
        (key, value), = argument.items()
        if key == "text":
            return self.keep(ctypes.create_string_buffer(value.encode("latin-1"))), None
        if key == "bytes":
            data = value.encode("latin-1")
            raw = (ctypes.c_ubyte * (len(data) + 4096 + 64))()
            ctypes.memmove(raw, data, len(data))
            self.kept.append(raw)
            address = ctypes.addressof(raw)
            start = (address + 63) // 64 * 64
            ctypes.memmove(start, data, len(data))
            return start, None
        if key == "object":
            return self.pointer_of(value), None
        if key in ("objects", "fetches"):
            buffer = (ctypes.c_void_p * (len(value) + 1))(*[self.pointer_of(one) for one in value], None)
            return self.keep(buffer), buffer
        if key == "texts":
            texts = [None if one is None else ctypes.create_string_buffer(one.encode("latin-1")) for one in value]
            self.kept += [one for one in texts if one is not None]
            return self.keep((ctypes.c_void_p * (len(value) + 1))(*[None if one is None else ctypes.addressof(one) for one in texts], None)), None
        if key == "numbers":
            kind = C.get(parameter.base, ctypes.c_int)
            mask = 2 ** (8 * ctypes.sizeof(kind)) - 1
            return self.keep((kind * (len(value) + 1))(*[kind(one & mask).value for one in value], 0)), None
        if key == "size":  # a size that is read and written
            buffer = self.place(8)
            ctypes.c_size_t.from_buffer(buffer).value = value
            return ctypes.addressof(buffer), buffer
        if key == "room":
            buffer = self.place(value * 8)
            return ctypes.addressof(buffer), buffer
        if key == "callback":
            return ctypes.cast(self.callbacks[value], ctypes.c_void_p).value, None
        raise ValueError(key)

    def status(self, pointer):
        """[code, message] of an OrtStatus*, which is released; None for success."""
        if not pointer:
            return None
        code = self.raw(self.functions["GetErrorCode"])(pointer)
        message = self.raw(self.functions["GetErrorMessage"])(pointer)
        text = ctypes.string_at(message).decode("latin-1") if message else None
        self.raw(self.functions["ReleaseStatus"])(pointer)
        return [code, text]

    def add(self, identity, kind, pointer, owned, parents):
        if not pointer:
            return None
        self.objects[identity] = Object(identity, kind, pointer, owned, parents)
        return identity

    def drop(self, identity):
        """An object is gone, and with it all that was borrowed from it."""
        self.objects.pop(identity, None)
        for one in [o for o in self.objects.values() if not o.owned and identity in o.parents]:
            self.drop(one.identity)

    def call(self, identity, name, arguments):
        """Plays one call. New objects are called IDENTITY.PARAMETER. Gives a dict of results."""
        function = self.functions[name]
        lowered = [self.lower(p, a) for p, a in zip(function.parameters, arguments, strict=True)]
        buffers = [buffer for _, buffer in lowered]
        returned = self.raw(function)(*[value for value, _ in lowered])
        results = {}
        parents = [a["object"] for a in arguments if isinstance(a, dict) and "object" in a]
        ok = True
        if function.returns in ("OrtStatus*", "OrtStatusPtr"):
            results["status"] = self.status(returned)
            ok = results["status"] is None
        elif function.returns in ("const char*", "const ORTCHAR_T*"):
            results["returns"] = ctypes.string_at(returned).decode("latin-1") if returned else None
        elif "*" in function.returns:
            kind = signatures.base_of(function.returns)
            results["returns"] = self.add(f"{identity}.returned", kind, returned, False, parents) if kind.startswith("Ort") else bool(returned)
        elif function.returns != "void":
            results["returns"] = returned if not isinstance(returned, bytes) else returned.decode("latin-1")
        for i, parameter in enumerate(function.parameters):
            if buffers[i] is None:
                continue
            if parameter.role in ROOM and bytes(buffers[i])[-GUARD:] != bytes([POISON]) * GUARD:
                results[parameter.name + " overrun"] = True
            if parameter.role == "in_out_size":
                results[parameter.name] = ctypes.c_size_t.from_buffer(buffers[i]).value
            elif ok:
                value = self.read(identity, function, i, arguments, buffers, parents)
                if value is not None:
                    results[parameter.name] = value
        if ok:
            for parameter, argument in zip(function.parameters, arguments):
                if (name, parameter.name) in USED_UP and isinstance(argument, dict):
                    for one in argument.get("objects", []):
                        self.drop(one)
                if (name, parameter.name) in TAKEN_OVER and isinstance(argument, dict):
                    for one in [argument["object"]] if "object" in argument else argument.get("objects", []):
                        if one in self.objects:  # stays there for its readers, but is released by its new owner
                            self.objects[one].owned = False
                            self.objects[one].parents = frozenset(parents[:1])
        if name.startswith("Release") and len(arguments) == 1 and isinstance(arguments[0], dict) and "object" in arguments[0]:
            self.drop(arguments[0]["object"])
        return results

    def length(self, function, i, arguments, buffers):
        """Of the array that parameter i receives: its length parameter, or the count that the call has written."""
        for k in range(i + 1, len(function.parameters)):
            parameter = function.parameters[k]
            if parameter.role == "length":
                return arguments[k] or 0
            if parameter.role in ("out_number", "in_out_size") and buffers[k] is not None:
                return int.from_bytes(bytes(buffers[k])[:width(parameter.base)], "little")
        return 0

    def read(self, identity, function, i, arguments, buffers, parents):
        parameter, buffer = function.parameters[i], buffers[i]
        raw = bytes(buffer)
        word = int.from_bytes(raw[:8], "little")
        role, name = parameter.role, f"{identity}.{parameter.name}"
        if word == UNSET and role != "out_number" and not role.startswith("out_numbers") and role not in ("out_bytes", "out_sized_text"):
            return "left as it was"

        def words(address, count):
            return list((ctypes.c_uint64 * count).from_address(address)) if address and count else []

        def text(address):
            return "left as it was" if address == UNSET else ctypes.string_at(address).decode("latin-1") if address else None

        if role == "out_number":
            size = width(parameter.base)
            if raw[:size] == bytes([POISON]) * size:
                return "left as it was"
            value = int.from_bytes(raw[:size], "little", signed=parameter.base in signatures.SIGNED or parameter.base in signatures.ENUMS)
            return value
        if role in ("out_new", "out_borrowed"):
            kind = parameter.base
            return self.add(name, kind, word, role == "out_new", parents) is not None
        if role == "out_text":
            return {"text": text(word)}
        if role == "out_allocated_text":
            return {"text": text(word)}
        if role in ("out_pointer", "out_allocation"):
            if role == "out_allocation":
                self.add(name, "allocation", word, True, parents)
            return bool(word)
        count = min(self.length(function, i, arguments, buffers), 4096)
        if role in ("out_borrowed_array", "out_allocated_values"):
            owned = role == "out_allocated_values"
            return [self.add(f"{name}.{k}", parameter.base, one, owned, parents) is not None for k, one in enumerate(words(word, count))]
        if role in ("out_borrowed_texts", "out_allocated_texts", "out_provider_list"):
            if role == "out_provider_list":
                self.add(name, "provider_list", word, True, [])
            texts = [text(one) for one in words(word, count)]
            return sorted(texts) if name.endswith((".keys", ".values")) else texts  # of a map without an order
        if role == "out_borrowed_numbers":
            return words(word, count)
        if role == "out_packed_names":
            return bool(word)
        if role == "out_lengths":
            return words(word, count)
        if role in ("out_objects", "fetches"):
            preset = arguments[i].get("fetches") if isinstance(arguments[i], dict) else None
            made = []
            for k in range(len(buffer) - 1 if role == "fetches" else min(count, len(raw) // 8)):
                one = buffer[k] if role == "fetches" else int.from_bytes(raw[8 * k:8 * k + 8], "little")
                if preset and k < len(preset) and preset[k] is not None:
                    made.append(self.objects[preset[k]].pointer == one)
                elif one == UNSET:
                    made.append("left as it was")
                else:
                    made.append(self.add(f"{name}.{k}", parameter.base, one, role == "fetches", parents) is not None)
            return made
        if role in ("out_texts", "out_texts_same"):
            return [text(int.from_bytes(raw[8 * k:8 * k + 8], "little")) for k in range(count)]
        if role in ("out_numbers", "out_numbers_same", "out_sized_numbers"):
            size = width(parameter.base)
            return [int.from_bytes(raw[size * k:size * k + size], "little", signed=parameter.base in signatures.SIGNED) for k in range(count)]
        if role in ("out_bytes", "out_sized_text"):
            return {"text": raw[:count].decode("latin-1")}
        if role == "out_element":
            return bool(word)
        return None
