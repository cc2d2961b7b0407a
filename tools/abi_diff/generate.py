"""Makes calls: a function, and an argument for each parameter by its role; mostly valid, sometimes misuse."""
import models
import signatures

ODD = ["", "x", "y", "sum", "w", "a\nb", "\xff\xfe", "%s%n%n", "x" * 300, "\xc3\xa9", "N", "1", " "]
SHAPES = [[], [1], [2], [3], [0], [2, 3], [2, 4], [4], [2, 4], [2, 3], [1, 3, 4], [2, 0, 3], [-1], [-1, 2], [2, -4], [2 ** 62, 4],
          [2 ** 32, 2 ** 32], [2 ** 63 - 1], [3, 2 ** 62], [1] * 9]
KEYS = ["session.disable_cpu_ep_fallback", "session.intra_op.allow_spinning", "session.use_env_allocators", "ep.context_enable",
        "session.load_model_format", "session.set_denormal_as_zero", "optimization.enable_gelu_approximation", "session.strict_shape_type_inference",
        "memory.enable_memory_arena_shrinkage", "disable_synchronize_execution_providers", "session.intra_op_thread_affinities",
        "session.dynamic_block_base", "session.model_external_initializers_file_folder_path", "ep.enable_weightless_mode", "k" * 1025]
SETTINGS = ["0", "1", "-1", "2", "abc", "", "cpu:0", "true", "ONNX", "ORT", "v" * 3000, "\xff"]
TEXTS = {  # by parameter
    "config_key": [*KEYS, "", "my.key", "\xff", "a\nb"], "config_value": SETTINGS, "value": SETTINGS,
    "key": ["author", "empty", "a", "b", "", "\xff", "odd\n"], "event_name": ODD,
    "provider_name": ["CPU", "CPUExecutionProvider", "AZURE", "CUDA", "XNNPACK", "Nope", "", "cpu", "DML", "QNN", "OpenVINO", "TensorRT", "WebGPU",
                      "JS", "SNPE", "VitisAI", "CoreML", "NvTensorRtRtx", "MIGraphX", "\xff", "X" * 300],
    "provider_type": ["CPUExecutionProvider", "CUDAExecutionProvider", "", "Nope"],
    "ep_name": ["CPUExecutionProvider", "Nope", ""], "dim_name": ["N", "H", "batch", "", "nothing"],
    "dim_denotation": ["DATA_BATCH", "DATA_CHANNEL", "", "nothing"], "affinity_string": ["", "1", "1;2", "1,2;3", "a", "1-2", ";", "0", "1-", "99999"],
    "profile_file_prefix": ["profile", "", "no/such/folder/p", "\xff"], "optimized_model_filepath": ["optimized.onnx", "", "no/such/folder/o.onnx"],
    "library_path": ["missing.so", "", "models/add.onnx"], "library_name": ["missing.so", "", "models/add.onnx"], "path": ["missing.so", "", "models/add.onnx"],
    "registration_name": ["one", "", "x" * 300], "registration_func_name": ["no_such_function", ""],
    "domain": ["", "ai.onnx", "com.microsoft", "example.custom", "ai.onnx.ml", "\xff"], "domain_name": ["", "ai.onnx", "com.microsoft", "nope"],
    "operator_name": ["Add", "Relu", "Nope", "", "Identity"], "op_type": ["Add", "Relu", "", "Nope"],
    "logid": ["one", "", "\xff"], "run_tag": ["tag", "", "\xff", "t" * 500],
}
MEMORIES = ["Cpu", "Cuda", "CudaPinned", "DML", "OpenVINO_CPU", "OpenVINO_GPU", "Nope", "", "Hip", "QnnHtpShared", "WebGPU_Buffer", "Cann", "CPU", "cpu"]
ATTRIBUTES = ["number", "real", "text", "numbers", "reals", "texts", "value", "nothing", "", "\xff"]
SIZES = [0, 1, 2, 4, 7, 8, 16, 24, 32, 64, 100, 4096]
HUGE = [2 ** 40, 2 ** 62, 2 ** 63 - 1, 2 ** 63, 2 ** 64 - 1]
# Roles for which a place is handed over, with its size in words.
PLACES = {"out_new": 1, "out_borrowed": 1, "out_text": 1, "out_allocated_text": 1, "out_number": 1, "out_pointer": 1, "out_borrowed_array": 1,
          "out_borrowed_texts": 1, "out_borrowed_numbers": 1, "out_allocation": 1, "out_element": 1, "out_provider_list": 1, "out_packed_names": 1,
          "out_lengths": 1, "out_allocated_values": 1, "out_allocated_texts": 1, "out_objects": 600, "out_texts": 600, "out_texts_same": 600,
          "out_numbers": 600, "out_numbers_same": 600, "out_bytes": 600, "out_sized_text": 600, "out_sized_numbers": 600}
# Calls that cannot be compared, with the reason.
LEFT_OUT = {
    "Graph_GetInitializers": "stock has them in no order, so that the first is another one there",
    "GetTrainingApi": "answers by version; no table of ours", "SetPerSessionThreadPoolCallbacks": "a struct of functions",
    "Logger_LogMessage": "writes to stderr only", "SetUserLoggingFunction": "the messages differ", "GetBuildInfoString": "names the library",
    "SessionGetProfilingStartTimeNs": "a time", "SessionEndProfiling": "a file name with a time", "KernelContext_GetGPUComputeStream": "a pointer",
    "KernelContext_GetResource": "a pointer", "ReleaseStatus": "each status is released after its call", "GetErrorCode": "called for each status",
    "GetErrorMessage": "called for each status", "GetExperimentalFunction": "other names there and here",
    "SetGlobalDenormalAsZero": "changes the process's arithmetic", "EnableProfiling": "files with times in their names",
    "RunOptionsEnableProfiling": "files with times in their names", "UpdateEnvWithCustomLogLevel": "makes the libraries talk",
    "EpGraphSupportInfo_AddNodesToFuse": "needs code that computes", "EpGraphSupportInfo_AddSingleNode": "needs kernels",
    "ReleaseKernelImpl": "an object of the plugin", "ReleaseEpDevice": "objects that the env owns", "KernelRegistry_AddKernel": "needs code that computes",
    "CreateEpDevice": "needs a factory", "ReleaseHardwareDevice": "objects that the env owns",
    "CreateOp": "reads as many names, types and attributes as its counts say",
    "SetCurrentGpuDeviceId": "needs a GPU", "AllocatorGetStats": "counters of an arena",
    "SessionOptionsSetCustomCreateThreadFn": "needs a thread function", "SetGlobalCustomCreateThreadFn": "needs a thread function",
    "SessionOptionsSetCustomJoinThreadFn": "needs a thread function", "SetGlobalCustomJoinThreadFn": "needs a thread function",
    "CreateEnvWithCustomLogger": "one env a process; the logger is called by threads", "CreateEnvWithCustomLoggerAndGlobalThreadPools": "the same",
    "CreateEnvWithOptions": "a struct with functions", "SessionOptionsSetEpSelectionPolicyDelegate": "needs a function",
}


class Generator:
    def __init__(self, player, rng, folder, left_out, misuse=0.04):
        self.player, self.rng, self.folder, self.misuse = player, rng, folder, misuse
        self.library = player.library
        self.functions = {name: function for name, function in self.library.functions.items()
                          if name not in LEFT_OUT and name not in left_out and not name.endswith("ProviderOptions")}
        self.names = list(self.functions)
        self.weights = [player.weights.get(name, 1) for name in self.names]

    def odds(self, probability):
        return self.rng.random() < probability

    def of_kind(self, kind):
        return [one.identity for one in self.library.objects.values() if one.kind == kind]

    def releasable(self, kind):
        return [one.identity for one in self.library.objects.values() if one.kind == kind and one.owned and not one.identity.startswith("pool")]

    def next(self, names=None):
        """(function's name, arguments) of a call whose objects exist."""
        while True:
            name = self.rng.choice(names) if names else self.rng.choices(self.names, self.weights)[0]
            function = self.functions[name]
            if name.startswith("Release") and len(function.parameters) == 1:
                candidates = self.releasable(function.parameters[0].base)
                if candidates:
                    return name, [{"object": self.rng.choice(candidates)}]
                if not self.odds(self.misuse):
                    continue
                return name, [None]
            # A function that needs an object which nobody has is left for the calls with nulls.
            if any(p.role == "object" and not self.of_kind(p.base) for p in function.parameters):
                continue
            return name, self.arguments(function)

    def arguments(self, function):
        special = getattr(self, "make_" + function.name, None)
        if special is not None:
            made = special(function)
            if made is not None:
                return [None if not isinstance(one, int) and self.odds(self.misuse / 3) else one for one in made]
        lengths = {}
        made = [self.argument(function, i, lengths) for i in range(len(function.parameters))]
        return made

    def length_of(self, function, i, lengths):
        """Arrays that share a length parameter have one size."""
        owner = function.parameters[i].count
        if owner < 0:  # the size is known from elsewhere: the arrays of one call are equally long
            owner = next((p.count for p in function.parameters if p.count >= 0), -2)
        if owner not in lengths:
            lengths[owner] = self.rng.choice([0, 1, 1, 2, 2, 3, 4])
        return lengths[owner]

    def argument(self, function, i, lengths):
        parameter = function.parameters[i]
        role, name = parameter.role, parameter.name
        null = self.odds(self.misuse)
        if role in PLACES or role == "fetches":
            if null:
                return None
            return {"room": PLACES.get(role, 600)}
        if role == "in_out_size":
            return None if null else {"size": self.rng.choice([0, 1, 2, 5, 64, 600])}
        if role == "object":
            candidates = self.of_kind(parameter.base)
            return None if null or not candidates else {"object": self.rng.choice(candidates)}
        if role == "objects":
            candidates = self.of_kind(parameter.base)
            count = self.length_of(function, i, lengths)
            if null or not candidates:
                return None
            return {"objects": [None if self.odds(self.misuse) else self.rng.choice(candidates) for _ in range(count)]}
        if role in ("enum", "number"):
            return self.number(function, parameter)
        if role == "length":
            for k, other in enumerate(function.parameters):
                if other.count == i and other.role.startswith("out_"):
                    return self.rng.choice([0, 1, 1, 2, 2, 3, 4, 5, 6, 8])
            if i not in lengths and any(p.role.endswith("_same") and p.count == i for p in function.parameters):
                lengths[i] = 0
            return lengths.get(i, self.rng.choice([0, 1, 2]))
        if role == "text":
            return None if null else {"text": self.text(function, name)}
        if role == "texts":
            count = self.length_of(function, i, lengths)
            return None if null else {"texts": [None if self.odds(self.misuse) else self.text(function, name.rstrip("s")) for _ in range(count)]}
        if role in ("numbers", "numbers_same"):
            count = self.length_of(function, i, lengths)
            if null:
                return None
            if parameter.base == "int64_t":
                fitting = [one for one in SHAPES if len(one) == count]
                return {"numbers": self.rng.choice(fitting) if fitting else [1] * count}
            return {"numbers": [self.rng.choice([0, 1, 2, 17]) for _ in range(count)]}
        if role in ("data", "model_bytes"):
            return None
        if role == "provider_list":
            candidates = self.of_kind("provider_list")
            return {"object": self.rng.choice(candidates)} if candidates else None
        if role == "allocation":
            candidates = self.of_kind("allocation")
            return {"object": self.rng.choice(candidates)} if candidates else None
        return None  # callbacks, structs and pointers without a meaning here

    def number(self, function, parameter):
        name, rng = parameter.name, self.rng
        if parameter.base in signatures.ENUMS and not self.odds(0.1):
            return rng.choice(signatures.ENUMS[parameter.base])
        if parameter.base in signatures.ENUMS:
            return rng.choice([-1, 99, 2 ** 31 - 1])
        if parameter.base == "bool":
            return rng.choice([0, 1])
        if "thread" in name:
            return rng.choice([0, 1, 2, 3, -1, -5])
        if parameter.base == "size_t":
            return rng.choice([0, 0, 1, 1, 2, 3, 5, *SIZES] + (HUGE if self.odds(0.3) else []))
        return rng.choice([0, 0, 1, 1, 2, 3, 4, -1, 5, 17] + ([-2 ** 31, 2 ** 31 - 1] if self.odds(0.3) else []))

    def text(self, function, name):
        rng = self.rng
        if "model_path" in name:
            return self.model_path()
        if function.name.startswith("KernelInfo") and name == "name":
            return rng.choice(ATTRIBUTES)
        if function.name.startswith("CreateMemoryInfo"):
            return rng.choice(MEMORIES)
        if function.name == "GetOpSchema":
            return rng.choice(["Add", "If", "LSTM", "Nope", "", "Relu"]) if name == "name" else rng.choice(TEXTS["domain"])
        return rng.choice(TEXTS.get(name, ODD))

    def model_path(self):
        if self.odds(0.2):
            name = self.rng.choice(models.BROKEN)
            return f"models/{name}" if name else ""
        return f"models/{self.rng.choice(list(models.INPUTS))}.onnx"

    # --- functions whose arguments belong together ---

    def object(self, kind):
        candidates = self.of_kind(kind)
        return {"object": self.rng.choice(candidates)} if candidates else None

    def make_CreateSessionFromArray(self, function):
        name = self.model_path()
        data = (self.folder / name).read_bytes() if name.endswith(".onnx") and (self.folder / name).is_file() else b""
        size = len(data) if not self.odds(0.1) else self.rng.choice([0, 1, len(data) // 2])
        options = self.object("OrtSessionOptions") if self.odds(0.8) else None
        head = [self.object("OrtEnv"), {"bytes": data.decode("latin-1")}, size, options]
        return head + [{"room": 1}] if function.name == "CreateSessionFromArray" else None

    def shape_and_type(self):
        shape = self.rng.choice(SHAPES[:12] if not self.odds(0.25) else SHAPES)
        kind = self.rng.choice([1, 1, 1, 7, 7, 9, 6, 11, 10, 16] if not self.odds(0.2) else list(range(24)) + [99, -1])
        return shape, kind

    def make_CreateTensorAsOrtValue(self, function):
        shape, kind = self.shape_and_type()
        if self.odds(0.2):
            kind = 8
        return [self.object("OrtAllocator"), {"numbers": shape}, len(shape), kind, {"room": 1}]

    def make_CreateTensorWithDataAsOrtValue(self, function):
        shape, kind = self.shape_and_type()
        if kind == 8:
            kind = 1
        count = 1
        for one in shape:
            count *= one
        size = count * {1: 4, 6: 4, 12: 4, 7: 8, 11: 8, 13: 8, 14: 8, 10: 2, 16: 2, 4: 2, 5: 2, 15: 16}.get(kind, 1)
        if self.odds(0.15):
            size = self.rng.choice([0, 1, size - 1, size + 1])
        data = bytes((k * 7) % 50 if kind == 7 and k % 8 == 0 else 0 for k in range(max(0, min(size, 4096)))) if kind != 1 else \
            b"".join(bytes([0, 0, 0x80 if k % 3 else 0, 0x3f + k % 2]) for k in range(max(0, min(size, 4096)) // 4 + 1))
        return [self.object("OrtMemoryInfo"), {"bytes": data.decode("latin-1")}, size % 2 ** 64, {"numbers": shape}, len(shape), kind, {"room": 1}]

    def texts_list(self):
        return [self.rng.choice(["a", "", "\xff", "longer text " * 9, "x\ny"]) for _ in range(self.rng.choice([0, 1, 2, 2, 2, 3]))]

    def make_FillStringTensor(self, function):
        texts = self.texts_list()
        return [self.value_of(8) or self.object("OrtValue"), {"texts": texts}, len(texts)]

    def make_FillStringTensorElement(self, function):
        return [self.value_of(8) or self.object("OrtValue"), {"text": self.rng.choice(["abc", "", "\xff"])}, self.rng.choice([0, 1, 2, 99, 2 ** 63])]

    def make_GetStringTensorContent(self, function):
        return [self.value_of(8) or self.object("OrtValue"), {"room": 600}, self.rng.choice([0, 1, 2, 3, 5, 600]), {"room": 600}, self.rng.choice([0, 1, 2, 2, 3])]

    def make_GetStringTensorElement(self, function):
        return [self.value_of(8) or self.object("OrtValue"), self.rng.choice([0, 1, 2, 600]), self.rng.choice([0, 1, 2, 99]), {"room": 600}]

    def make_TensorAt(self, function):
        index = self.rng.choice([[0, 0], [1, 2], [1, 3], [2, 0], [-1, 0], [0], [], [0, 0, 0], [2 ** 62, 1]])
        return [self.value_of(None) or self.object("OrtValue"), {"numbers": index}, len(index), {"room": 1}]

    def value_of(self, kind, shape=None):
        """A tensor in the pool of this element type (any, for None) and shape."""
        found = [one for one, seen in self.player.seen.items()
                 if one in self.library.objects and self.library.objects[one].kind == "OrtValue" and isinstance(seen, dict) and seen.get("kind") == (2 if kind == "sequence" else 1)
                 and (kind in (None, "sequence") or seen.get("tensor", {}).get("type") == kind)
                 and (shape is None or seen.get("tensor", {}).get("dims") == shape)]
        return {"object": self.rng.choice(found)} if found else None

    def feeds(self, session):
        """Names and values for a run of this session, and names of outputs; sometimes wrong."""
        rng = self.rng
        inputs, outputs = models.INPUTS.get(self.player.models.get(session), ([("x", 1, [2, 4])], ["y"]))
        names, values = [], []
        for name, kind, dims in inputs:
            value = self.value_of(kind, dims if not self.odds(0.08) else None)
            if value is None or self.odds(0.06):
                value = self.object("OrtValue")
            names.append(name)
            values.append(None if value is None or self.odds(self.misuse) else value["object"])
        if self.odds(0.1) and names:
            names.pop(), values.pop()
        if self.odds(0.06) and names:
            names[rng.randrange(len(names))] = rng.choice(ODD)
        if self.odds(0.05):
            names.append(rng.choice([*names, "w", "nothing"]))
            values.append(values[-1] if values else None)
        if self.odds(0.04):
            names = [None if self.odds(0.5) else name for name in names]
        chosen = list(outputs) if self.odds(0.6) else [rng.choice(outputs)]
        if self.odds(0.08):
            chosen.append(rng.choice([*outputs, "nothing", "x", ""]))
        if self.odds(0.04):
            chosen = [None] if self.odds(0.5) else []
        fetches = [None if self.odds(0.9) else (self.object("OrtValue") or {"object": None})["object"] for _ in chosen]
        return names, values, chosen, fetches

    def make_Run(self, function):
        session = self.object("OrtSession")
        if session is None:
            return None
        names, values, outputs, fetches = self.feeds(session["object"])
        options = self.object("OrtRunOptions") if self.odds(0.4) else None
        return [session, options, {"texts": names}, {"objects": values}, len(names), {"texts": outputs}, len(outputs), {"fetches": fetches}]

    def make_RunAsync(self, function):
        made = self.make_Run(function)
        return made and [*made, {"callback": "run"}, None]

    def binding_names(self, which):
        binding = self.object("OrtIoBinding")
        if binding is None:
            return None, None, None
        session = next(iter(self.library.objects[binding["object"]].parents), None)
        inputs, outputs = models.INPUTS.get(self.player.models.get(session), ([("x", 1, [2, 4])], ["y"]))
        name, kind, dims = self.rng.choice(inputs) if which == "in" else (self.rng.choice(outputs), None, None)
        return binding, {"text": name if not self.odds(0.12) else self.rng.choice(ODD)}, self.value_of(kind, dims) or self.object("OrtValue")

    def make_BindInput(self, function):
        binding, name, value = self.binding_names("in")
        return binding and [binding, name, value]

    def make_BindOutput(self, function):
        binding, name, value = self.binding_names("out")
        return binding and [binding, name, value]

    def make_BindOutputToDevice(self, function):
        binding, name, _ = self.binding_names("out")
        return binding and [binding, name, self.object("OrtMemoryInfo")]

    def make_RunWithBinding(self, function):
        binding = self.object("OrtIoBinding")
        if binding is None:
            return None
        session = next(iter(self.library.objects[binding["object"]].parents), None)
        session = {"object": session} if session in self.library.objects and not self.odds(0.15) else self.object("OrtSession")
        return [session, self.object("OrtRunOptions") if self.odds(0.3) else None, binding]

    def make_CreateOpAttr(self, function):
        kind = self.rng.choice([1, 2, 3, 4, 5, 6, 1, 0, 7, 9, 99])
        data = {"bytes": "\x05\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0"}
        if kind == 6:
            data = {"texts": ["a", "b"]}
        return [{"text": self.rng.choice(["alpha", "axis", "", "\xff"])}, data, self.rng.choice([0, 1, 2]), kind, {"room": 1}]

    def make_ReadOpAttr(self, function):
        return [self.object("OrtOpAttr"), self.rng.choice([1, 2, 3, 4, 5, 0, 6, 7, 8, 99]), {"room": 600}, self.rng.choice([0, 1, 4, 8, 16, 600]), {"room": 1}]

    def make_CreateValue(self, function):
        kind = self.rng.choice([2, 2, 2, 3, 3, 0, 1, 4, 6, 99])
        count = self.rng.choice([0, 1, 2, 2, 2, 3])
        pool = self.of_kind("OrtValue")
        values = [None if not pool or self.odds(self.misuse) else self.rng.choice(pool) for _ in range(count)]
        if kind == 3 and self.odds(0.6):
            key, score = self.value_of(self.rng.choice([7, 8]), [2]), self.value_of(None, [2])
            if key and score:
                values = [key["object"], score["object"]]
        return [{"objects": values}, len(values), kind, {"room": 1}]

    def make_AllocatorAlloc(self, function):
        return [self.object("OrtAllocator"), self.rng.choice([0, 1, 64, 4096, 2 ** 62, 2 ** 63 - 1, 2 ** 64 - 1]), {"room": 1}]

    def make_AllocatorFree(self, function):
        found = self.object("allocation")
        if found is None:
            return [self.object("OrtAllocator"), None]
        owner = next(iter(self.library.objects[found["object"]].parents), None)
        return [{"object": owner}, found] if owner in self.library.objects else None

    def make_CopyTensors(self, function):
        count = self.rng.choice([0, 1, 1, 2])
        pool = self.of_kind("OrtValue")
        source, target = ([self.rng.choice(pool) for _ in range(count)] for _ in range(2)) if pool else ([], [])
        return [self.object("OrtEnv"), {"objects": source}, {"objects": target}, None, len(source)]

    def make_ReleaseAvailableProviders(self, function):
        found = self.object("provider_list")
        return [found, self.rng.choice([1, 2])] if found else [None, 0]
