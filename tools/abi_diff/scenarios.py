"""Scenarios that chance does not find: orders of releases, whole uses of one object, and everything that a session can be asked.

Each is a function of a Scene, whose call() plays one call and gives the name of a new object, or None."""
import models

ROOM = {"room": 1}
SCENARIOS = {}
NAMES = SCENARIOS.keys()


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


class Scene:
    def __init__(self, player):
        self.player, self.number = player, 0

    def call(self, name, *arguments):
        """An argument that begins with "@" is an object's name; other texts are texts, lists of them are arrays."""
        self.number += 1
        identity = f"s{self.number}"
        self.player.play(identity, name, [self.lower(one) for one in arguments])
        made = [one for one in self.player.library.objects if one.startswith(identity + ".")]
        return "@" + made[0] if made else None

    @staticmethod
    def lower(one):
        if isinstance(one, str):
            return {"object": one[1:]} if one.startswith("@") else {"text": one}
        if isinstance(one, list) and one and all(isinstance(item, str) and item.startswith("@") for item in one):
            return {"objects": [item[1:] for item in one]}
        if isinstance(one, list):
            return {"texts": one} if not one or isinstance(one[0], str) or one[0] is None else {"numbers": one}
        return one

    def session(self, model, options="@pool.options.options"):
        return self.call("CreateSession", "@pool.env.out", f"models/{model}.onnx", options, ROOM)

    def run(self, session, inputs, outputs, options=None, fetches=None):
        values = [value for _, value in inputs]
        return self.call("Run", session, options, [name for name, _ in inputs], values, len(inputs), outputs, len(outputs),
                         {"fetches": fetches or [None] * len(outputs)})


X, Y = ("x", "@pool.value0.out"), ("y", "@pool.value1.out")


@scenario
def what_a_session_says(s):
    for model in models.INPUTS:
        session = s.session(model)
        for kind in ("Input", "Output", "OverridableInitializer"):
            for index in (0, 1, 2, 2 ** 63):
                s.call(f"SessionGet{kind}Name", session, index, "@pool.allocator.out", ROOM)
                s.call(f"SessionGet{kind}TypeInfo", session, index, ROOM)
        metadata = s.call("SessionGetModelMetadata", session, ROOM)
        for name in ("ProducerName", "GraphName", "Domain", "Description", "GraphDescription"):
            s.call(f"ModelMetadataGet{name}", metadata, "@pool.allocator.out", ROOM)
        for key in ("author", "empty", "odd\n", "nothing", ""):
            s.call("ModelMetadataLookupCustomMetadataMap", metadata, "@pool.allocator.out", key, ROOM)
        s.call("ModelMetadataGetVersion", metadata, ROOM)


@scenario
def every_model_runs(s):
    given = {1: {(2, 4): "@pool.value0.out", (2, 3): "@pool.value2.out", (): "@pool.value3.out", (1, 3, 4): "@pool.value9.out"},
             7: {(): "@pool.value4.out", (3,): "@pool.value5.out"}, 9: {(): "@pool.value6.out"}, 8: {(2,): "@pool.value11.out"},
             "sequence": {(): "@pool.list_value.out"}}
    for model, (inputs, outputs) in models.INPUTS.items():
        feeds = [(name, given[kind][tuple(dims or ())]) for name, kind, dims in inputs]
        for chosen in (outputs, outputs[:1], outputs[::-1], outputs * 2):
            s.run(f"@pool.{model}.out", feeds, chosen)
        s.run(f"@pool.{model}.out", feeds[::-1], outputs)
        s.run(f"@pool.{model}.out", feeds + feeds[:1], outputs)


@scenario
def the_env_is_released_before_what_it_made(s):
    session = s.session("add")
    value = s.run(session, [X, Y], ["sum"])
    info = s.call("SessionGetInputTypeInfo", session, 0, ROOM)
    s.call("ReleaseEnv", "@pool.env.out")
    s.run(session, [X, Y], ["sum"])
    s.call("GetTensorTypeAndShape", value, ROOM)
    s.call("ReleaseSession", session)
    s.call("GetOnnxTypeFromTypeInfo", info, ROOM)
    s.call("GetTensorSizeInBytes", value, ROOM)
    s.call("ReleaseValue", value)
    env = s.call("CreateEnv", 3, "again", ROOM)
    s.call("CreateSession", env, "models/add.onnx", None, ROOM)


@scenario
def values_outlive_their_makers(s):
    session = s.session("add")
    allocator = s.call("CreateAllocator", session, "@pool.cpu.out", ROOM)
    value = s.call("CreateTensorAsOrtValue", allocator, [2, 4], 2, 1, ROOM)
    result = s.run(session, [X, ("y", value)], ["sum"])
    listed = s.call("CreateValue", [value, result], 2, 2, ROOM)
    s.call("ReleaseValue", value)
    s.call("ReleaseValue", result)
    for index in (0, 1, 2, -1):
        s.call("GetValue", listed, index, "@pool.allocator.out", ROOM)
    s.call("ReleaseSession", session)
    s.call("GetValueCount", listed, ROOM)
    s.call("GetValue", listed, 1, "@pool.allocator.out", ROOM)


@scenario
def options_after_the_session(s):
    options = s.call("CreateSessionOptions", ROOM)
    s.call("SetIntraOpNumThreads", options, 1)
    s.call("AddSessionConfigEntry", options, "my.key", "1")
    copy = s.call("CloneSessionOptions", options, ROOM)
    session = s.session("add", options)
    s.call("ReleaseSessionOptions", options)
    s.run(session, [X, Y], ["sum"])
    s.call("HasSessionConfigEntry", copy, "my.key", ROOM)
    s.call("GetSessionConfigEntry", copy, "my.key", {"room": 600}, {"size": 1})
    s.call("GetSessionConfigEntry", copy, "my.key", None, {"size": 0})
    s.call("GetSessionConfigEntry", copy, "nothing", {"room": 600}, {"size": 9})
    s.session("add", copy)


@scenario
def io_binding(s):
    binding = s.call("CreateIoBinding", "@pool.add.out", ROOM)
    names = ("GetBoundOutputNames", binding, "@pool.allocator.out", ROOM, ROOM, ROOM)
    values = ("GetBoundOutputValues", binding, "@pool.allocator.out", ROOM, ROOM)
    s.call("RunWithBinding", "@pool.add.out", None, binding)
    s.call("BindInput", binding, "x", "@pool.value0.out")
    s.call("BindOutput", binding, "sum", "@pool.value1.out")
    s.call("RunWithBinding", "@pool.add.out", None, binding)
    s.call("BindInput", binding, "y", "@pool.value1.out")
    for name in ("nothing", "", "sum"):
        s.call("BindInput", binding, name, "@pool.value0.out")
        s.call("BindOutput", binding, name, "@pool.value1.out")
    s.call("RunWithBinding", "@pool.add.out", None, binding)
    other = s.call("CreateIoBinding", "@pool.two.out", ROOM)
    for output in ("positive", "negative", "positive"):
        s.call("BindOutputToDevice", other, output, "@pool.cpu.out")
        s.call("GetBoundOutputNames", other, "@pool.allocator.out", ROOM, ROOM, ROOM)
    s.call("BindInput", other, "x", "@pool.value0.out")
    s.call("RunWithBinding", "@pool.two.out", None, other)
    s.call("BindInput", other, "x", "@pool.value2.out")
    s.call("RunWithBinding", "@pool.two.out", "@pool.run.run" if False else None, other)
    s.call("GetBoundOutputValues", other, "@pool.allocator.out", ROOM, ROOM)
    s.call(*names)
    s.call(*values)
    s.call("ClearBoundOutputs", other)
    s.call("GetBoundOutputValues", other, "@pool.allocator.out", ROOM, ROOM)
    s.call("RunWithBinding", "@pool.two.out", None, other)
    s.call("ClearBoundInputs", other)
    s.call("BindOutputToDevice", other, "positive", "@pool.cpu.out")
    s.call("RunWithBinding", "@pool.two.out", None, other)
    s.call("ReleaseIoBinding", other)


@scenario
def outputs_that_the_program_gives(s):
    right = s.call("CreateTensorAsOrtValue", "@pool.allocator.out", [2, 4], 2, 1, ROOM)
    for shape, kind in (([2, 4], 1), ([4, 2], 1), ([8], 1), ([2, 4], 7), ([2, 3], 1), ([1, 4], 1), ([0, 4], 1)):
        value = s.call("CreateTensorAsOrtValue", "@pool.allocator.out", shape, len(shape), kind, ROOM)
        s.run("@pool.add.out", [X, Y], ["sum"], fetches=[value[1:]])
        s.call("GetTensorTypeAndShape", value, ROOM)
    s.run("@pool.add.out", [X, ("y", right)], ["sum"], fetches=[right[1:]])  # in place
    s.call("GetTensorSizeInBytes", right, ROOM)
    s.run("@pool.add.out", [X, Y], ["sum", "sum"], fetches=[right[1:], right[1:]])
    s.run("@pool.strings.out", [("x", "@pool.value11.out")], ["y"], fetches=["pool.value12.out"])
    s.call("GetStringTensorDataLength", "@pool.value12.out", ROOM)


@scenario
def runs_that_are_wrong(s):
    for feeds, outputs in (([], ["sum"]), ([X], ["sum"]), ([X, Y], []), ([X, Y], ["nothing"]), ([X, Y], ["x"]), ([X, Y], [""]),
                           ([X, ("z", "@pool.value1.out")], ["sum"]), ([X, Y, ("z", "@pool.value1.out")], ["sum"]), ([X, X], ["sum"]),
                           ([X, ("y", "@pool.value2.out")], ["sum"]), ([X, ("y", "@pool.value4.out")], ["sum"]), ([X, ("y", "@pool.value11.out")], ["sum"]),
                           ([X, ("y", "@pool.list_value.out")], ["sum"]), ([X, ("y", "@pool.map_value.out")], ["sum"]), ([X, ("y", "@pool.value9.out")], ["sum"]),
                           ([X, ("y", "@pool.value3.out")], ["sum"])):
        s.run("@pool.add.out", feeds, outputs)
    for value in ("@pool.value0.out", "@pool.value2.out", "@pool.value9.out", "@pool.value7.out", "@pool.value10.out"):
        s.run("@pool.fixed.out", [("x", value)], ["y"])
        s.run("@pool.nonzero.out", [("x", value)], ["where"])
    for index in ("@pool.value4.out", "@pool.value5.out"):
        s.run("@pool.at.out", [("all", "@pool.list_value.out"), ("i", index)], ["y"])
    s.run("@pool.at.out", [("all", "@pool.value0.out"), ("i", "@pool.value4.out")], ["y"])
    s.run("@pool.optional.out", [("x", "@pool.list_value.out")], ["o"])
    options = s.call("CreateRunOptions", ROOM)
    s.call("RunOptionsSetTerminate", options)
    s.run("@pool.add.out", [X, Y], ["sum"], options)
    s.call("RunOptionsUnsetTerminate", options)
    s.run("@pool.add.out", [X, Y], ["sum"], options)


@scenario
def overridable_initializers(s):
    weight = s.call("CreateTensorAsOrtValue", "@pool.allocator.out", [4], 1, 1, ROOM)
    s.run("@pool.overridable.out", [X], ["y"])
    s.run("@pool.overridable.out", [X, ("w", weight)], ["y"])
    s.run("@pool.overridable.out", [("w", weight)], ["y"])
    s.run("@pool.overridable.out", [X, ("w", "@pool.value0.out")], ["y"])
    s.run("@pool.overridable.out", [X, ("w", "@pool.value4.out")], ["y"])


@scenario
def strings_with_odd_bytes(s):
    for texts in (["", "\xff\xfe"], ["a\nb", "x" * 5000], ["one"], [], ["a", None]):
        value = s.call("CreateTensorAsOrtValue", "@pool.allocator.out", [2], 1, 8, ROOM)
        s.call("FillStringTensor", value, texts, len(texts))
        s.call("GetStringTensorDataLength", value, ROOM)
        for size, count in ((0, 2), (5, 2), (600, 2), (600, 1), (600, 3)):
            s.call("GetStringTensorContent", value, {"room": 600}, size, {"room": 600}, count)
        for index in (0, 1, 2):
            s.call("GetStringTensorElementLength", value, index, ROOM)
            s.call("GetStringTensorElement", value, 4096, index, {"room": 600})
            s.call("FillStringTensorElement", value, "new", index)
            s.call("GetResizedStringTensorElementBuffer", value, index, 3, ROOM)
        s.run("@pool.strings.out", [("x", value)], ["y"])
    empty = s.call("CreateTensorAsOrtValue", "@pool.allocator.out", [0], 1, 8, ROOM)
    s.call("FillStringTensor", empty, [], 0)
    s.call("GetStringTensorContent", empty, None, 0, None, 0)
    s.run("@pool.strings.out", [("x", empty)], ["y"])


@scenario
def maps_and_sequences(s):
    for keys in (["b", "a", "c"], ["a", "a", "b"]):
        key = s.call("CreateTensorAsOrtValue", "@pool.allocator.out", [3], 1, 8, ROOM)
        s.call("FillStringTensor", key, keys, 3)
        for kind in (1, 7, 11, 8, 6):
            value = s.call("CreateTensorAsOrtValue", "@pool.allocator.out", [3], 1, kind, ROOM)
            made = s.call("CreateValue", [key, value], 2, 3, ROOM)
            if made:
                s.call("GetTypeInfo", made, ROOM)
                s.call("GetValueType", made, ROOM)
                for index in (0, 1, 2):
                    s.call("GetValue", made, index, "@pool.allocator.out", ROOM)
    number = s.call("CreateTensorWithDataAsOrtValue", "@pool.cpu.out", {"bytes": "".join(chr(k) + "\0" * 7 for k in (9, 2, 5))}, 24, [3], 1, 7, ROOM)
    s.call("CreateValue", [number, "@pool.value5.out"], 2, 3, ROOM)
    empty = s.call("CreateValue", [], 0, 2, ROOM)
    for values in (["@pool.value0.out"], ["@pool.value0.out", "@pool.value4.out"], ["@pool.value0.out", "@pool.value2.out"],
                   ["@pool.map_value.out", "@pool.map_value.out"], ["@pool.list_value.out"], ["@pool.value11.out", "@pool.value12.out"]):
        made = s.call("CreateValue", values, len(values), 2, ROOM)
        if made:
            s.call("GetTypeInfo", made, ROOM)
            s.call("IsTensor", made, ROOM)
            s.call("GetTensorTypeAndShape", made, ROOM)
    return empty


@scenario
def settings_that_a_session_refuses(s):
    for key, value in (("session.disable_cpu_ep_fallback", "1"), ("session.disable_cpu_ep_fallback", "2"), ("session.load_model_format", "ORT"),
                       ("session.load_model_format", "nothing"), ("session.use_env_allocators", "1"), ("session.intra_op_thread_affinities", "a"),
                       ("session.intra_op_thread_affinities", "1;2"), ("session.dynamic_block_base", "-1"), ("session.dynamic_block_base", "a"),
                       ("ep.enable_weightless_mode", "7"), ("session.set_denormal_as_zero", "1"), ("session.strict_shape_type_inference", "1"),
                       ("session.disable_prepacking", "1"), ("session.use_ort_model_bytes_directly", "1"), ("session.force_spinning_stop", "1"),
                       ("optimization.minimal_build_optimizations", "nothing"), ("session.optimized_model_external_initializers_file_name", "w.bin"),
                       ("session.save_model_format", "nothing"), ("ep.context_enable", "1"), ("ep.context_enable", "nothing"), ("ep.stop_share_ep_contexts", "1"),
                       ("session.record_ep_graph_assignment_info", "1"), ("session.qdq_is_int8_allowed", "a")):
        options = s.call("CreateSessionOptions", ROOM)
        s.call("SetIntraOpNumThreads", options, 1)
        s.call("AddSessionConfigEntry", options, key, value)
        session = s.session("add", options)
        if session:
            s.run(session, [X, Y], ["sum"])
            s.call("Session_GetEpGraphAssignmentInfo", session, ROOM, ROOM)
    for name, number in (("SetSessionGraphOptimizationLevel", 7), ("SetSessionExecutionMode", 1), ("SetSessionLogSeverityLevel", 9), ("SetIntraOpNumThreads", -1),
                         ("SetInterOpNumThreads", -1), ("SetDeterministicCompute", 1)):
        options = s.call("CreateSessionOptions", ROOM)
        s.call("SetIntraOpNumThreads", options, 1)
        s.call(name, options, number)
        s.session("add", options)
    options = s.call("CreateSessionOptions", ROOM)
    s.call("DisablePerSessionThreads", options)
    s.session("add", options)
    for name, size in (("N", 2), ("N", 3), ("nothing", 4), ("N", -1), ("N", 0)):
        options = s.call("CreateSessionOptions", ROOM)
        s.call("SetIntraOpNumThreads", options, 1)
        s.call("AddFreeDimensionOverrideByName", options, name, size)
        session = s.session("add", options)
        if session:
            s.run(session, [X, Y], ["sum"])


@scenario
def models_that_are_wrong(s):
    for name in models.BROKEN:
        s.call("CreateSession", "@pool.env.out", f"models/{name}" if name else "", "@pool.options.options", ROOM)
    s.call("CreateSessionFromArray", "@pool.env.out", None, 10, "@pool.options.options", ROOM)
    whole = (s.player.folder / "models" / "add.onnx").read_bytes().decode("latin-1")
    for data in (whole, whole[:20], "", "\0" * 100, whole + "\0", whole * 2):
        s.call("CreateSessionFromArray", "@pool.env.out", {"bytes": data}, len(data), "@pool.options.options", ROOM)


@scenario
def profiling_that_is_not_on(s):
    session = s.session("add")
    s.call("SessionGetProfilingStartTimeNs", session, None)
    options = s.call("CreateSessionOptions", ROOM)
    s.call("DisableProfiling", options)
    s.session("add", options)


@scenario
def allocators(s):
    env, cpu = "@pool.env.out", "@pool.cpu.out"
    for info in ("@pool.cpu.out", "@pool.arena.out", s.call("CreateMemoryInfo", "Cuda", 0, 0, 0, ROOM)):
        allocator = s.call("CreateAllocator", "@pool.add.out", info, ROOM)
        if allocator:
            s.call("AllocatorGetInfo", allocator, ROOM)
            block = s.call("AllocatorAlloc", allocator, 100, ROOM)
            s.call("AllocatorFree", allocator, block)
            s.call("AllocatorFree", allocator, None)
        s.call("GetSharedAllocator", env, info, ROOM)
    s.call("CreateAndRegisterAllocator", env, cpu, None)
    s.call("CreateAndRegisterAllocator", env, cpu, None)
    s.call("UnregisterAllocator", env, cpu)
    s.call("UnregisterAllocator", env, cpu)
    for strategy, chunk in ((-1, -1), (0, 1), (1, 0), (2, 0), (-2, 0), (0, -2)):
        s.call("CreateArenaCfg", 0, strategy, chunk, -1, ROOM)
    for key in ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk", "initial_growth_chunk_size_bytes",
                "max_power_of_two_extend_bytes", "nothing"):
        for value in (0, 1, 2, 100):
            s.call("CreateArenaCfgV2", [key], [value], 1, ROOM)


@scenario
def type_infos(s):
    shape = s.call("CreateTensorTypeAndShapeInfo", ROOM)
    for dims in ([2, 3], [], [-1, 4], [0], [-2], [2 ** 62, 4]):
        s.call("SetTensorElementType", shape, 1)
        s.call("SetDimensions", shape, dims or [0], len(dims))
        s.call("SetSymbolicDimensions", shape, ["a", "b"][:max(1, len(dims))], len(dims))
        s.call("GetDimensionsCount", shape, ROOM)
        s.call("GetDimensions", shape, {"room": 600}, len(dims))
        s.call("GetSymbolicDimensions", shape, {"room": 600}, len(dims))
        s.call("GetTensorShapeElementCount", shape, ROOM)
    tensor = s.call("CreateTensorTypeInfo", shape, ROOM)
    for info in (tensor, s.call("CreateSequenceTypeInfo", tensor, ROOM), s.call("CreateMapTypeInfo", 8, tensor, ROOM), s.call("CreateOptionalTypeInfo", tensor, ROOM)):
        for cast in ("CastTypeInfoToTensorInfo", "CastTypeInfoToMapTypeInfo", "CastTypeInfoToSequenceTypeInfo", "CastTypeInfoToOptionalTypeInfo"):
            s.call(cast, info, ROOM)
        s.call("CreateValueInfo", "v", info, ROOM)


@scenario
def ep_devices(s):
    device = "@pool.devices.ep_devices.0"
    for name in ("EpName", "EpMetadata", "EpOptions"):
        s.call(f"EpDevice_{name}", device)
    hardware = s.call("EpDevice_Device", device)
    s.call("HardwareDevice_Type", hardware)
    for memory in (0, 5, 7):
        s.call("EpDevice_MemoryInfo", device, memory)
        s.call("CreateSharedAllocator", "@pool.env.out", device, memory, 0, None, ROOM)
        s.call("CreateSharedAllocator", "@pool.env.out", device, memory, 1, None, ROOM)
        s.call("ReleaseSharedAllocator", "@pool.env.out", device, memory)
    for room in (0, 1, 2, 5):
        for which in ("Inputs", "Outputs"):
            s.call(f"SessionGetEpDeviceFor{which}", "@pool.two.out", {"room": 600}, room)
            s.call(f"SessionGetMemoryInfoFor{which}", "@pool.add.out", {"room": 600}, room)
    for policy in (0, 1, 2, 3, 4, 5, 6, 7, -1):
        options = s.call("CreateSessionOptions", ROOM)
        s.call("SetIntraOpNumThreads", options, 1)
        s.call("SessionOptionsSetEpSelectionPolicy", options, policy)
        session = s.session("add", options)
        if session:
            s.run(session, [X, Y], ["sum"])
    for devices, keys, values in (([device], [], []), ([device, device], [], []), ([device], ["a"], ["b"]), ([], [], [])):
        options = s.call("CreateSessionOptions", ROOM)
        s.call("SetIntraOpNumThreads", options, 1)
        s.call("SessionOptionsAppendExecutionProvider_V2", options, "@pool.env.out", devices or None, len(devices), keys, values, len(keys))
        s.session("add", options)


@scenario
def arrays_of_no_elements(s):
    options = s.call("CreateSessionOptions", ROOM)
    s.call("AddExternalInitializers", options, None, None, 0)
    s.call("AddExternalInitializersFromFilesInMemory", options, None, None, None, 0)
    s.call("SessionOptionsAppendExecutionProvider", options, "CPU", None, None, 0)
    s.call("SetEpDynamicOptions", "@pool.add.out", None, None, 0)
    s.call("CreateArenaCfgV2", None, None, 0, ROOM)
    s.call("CreateTensorAsOrtValue", "@pool.allocator.out", None, 0, 1, ROOM)
    s.call("CreateTensorWithDataAsOrtValue", "@pool.cpu.out", None, 0, [0, 4], 2, 1, ROOM)
    s.call("GetDimensions", "@pool.tensorinfo.out", None, 0)
    s.call("SetDimensions", "@pool.shape.out", None, 0)
    s.call("FillStringTensor", s.call("CreateTensorAsOrtValue", "@pool.allocator.out", [0], 1, 8, ROOM), None, 0)
    s.call("CreateNode", "Relu", "", "n", None, 0, None, 0, None, 0, ROOM)
    s.call("CreateModel", None, None, 0, ROOM)
    s.call("SetGraphInputs", "@pool.graph.graph", None, 0)
    s.call("Run", "@pool.add.out", None, None, None, 0, ["sum"], 1, {"fetches": [None]})
    s.call("Run", "@pool.add.out", None, ["x"], ["@pool.value0.out"], 1, None, 0, None)
    s.call("CreateSessionFromArray", "@pool.env.out", None, 0, "@pool.options.options", ROOM)


@scenario
def a_model_made_by_hand(s):
    shape = s.call("CreateTensorTypeAndShapeInfo", ROOM)
    s.call("SetTensorElementType", shape, 1)
    s.call("SetDimensions", shape, [2, 4], 2)
    info = s.call("CreateTensorTypeInfo", shape, ROOM)
    for operator, inputs, domain in (("Add", ["x", "y"], ""), ("Nope", ["x", "y"], ""), ("Add", ["x"], ""), ("Add", ["x", "nothing"], ""), ("Add", ["x", "y"], "ai.onnx")):
        graph = s.call("CreateGraph", ROOM)
        given = [s.call("CreateValueInfo", name, info, ROOM) for name in ("x", "y")]
        s.call("SetGraphInputs", graph, given, 2)
        s.call("SetGraphOutputs", graph, [s.call("CreateValueInfo", "sum", info, ROOM)], 1)
        node = s.call("CreateNode", operator, domain, "node", inputs, len(inputs), ["sum"], 1, None, 0, ROOM)
        s.call("AddNodeToGraph", graph, node)
        model = s.call("CreateModel", [""], [17], 1, ROOM)
        s.call("AddGraphToModel", model, graph)
        session = s.call("CreateSessionFromModel", "@pool.env.out", model, "@pool.options.options", ROOM)
        if session:
            s.run(session, [X, Y], ["sum"])


def play(player, name):
    SCENARIOS[name](Scene(player))
