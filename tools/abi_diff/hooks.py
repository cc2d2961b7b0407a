"""Calls from inside of the library's callbacks: in a custom operator's kernel, and in an EP that is shown the graph."""
import ctypes
import os

import signatures

P, Z, I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
VOID, INT, SIZE, TEXT = None, I, Z, ctypes.c_char_p
# Slot of OrtCustomOp: (what it returns, its parameters)
CUSTOM = {1: (Z, P, P, P), 2: (Z, P), 3: (Z, P), 4: (INT, P, Z), 5: (SIZE, P), 6: (INT, P, Z), 7: (SIZE, P), 8: (VOID, P, P), 9: (VOID, P),
          10: (INT, P, Z), 11: (INT, P, Z), 12: (INT, P, Z), 13: (INT, P), 14: (INT, P), 15: (INT, P), 16: (INT, P), 17: (Z, P, P, P, P), 18: (Z, P, P),
          19: (Z, P, P), 20: (INT, P), 21: (INT, P), 22: (SIZE, P, P), 23: (VOID, P, P), 24: (SIZE, P, P), 25: (VOID, P, P)}
KINDS = {"kernel_info": "OrtKernelInfo", "kernel_context": "OrtKernelContext", "shape_infer": "OrtShapeInferContext"}


def callbacks(player):
    """For arguments {"callback": name}."""
    return {"run": ctypes.CFUNCTYPE(None, P, P, Z, P)(lambda *_: None)}


def borrow(player, name, kind, pointer):
    player.library.add(name, kind, pointer, False, [])
    return name


def custom_op(player, when):
    """An operator Custom(x, k) -> y whose callback named by `when` plays the calls."""
    name = ctypes.create_string_buffer(b"Custom")
    keep, table = [name], (P * 26)()

    def once(kind, pointer):
        if kind == when["kind"] and not when["done"]:
            when["done"] = True
            borrow(player, "hook", KINDS[kind], pointer)
            player.sequence(when["job"], player.functions_of({KINDS[kind]}))

    def create(op, api, info, out):
        once("kernel_info", info)
        P.from_address(out).value = 1
        return 0

    def compute(kernel, context):
        once("kernel_context", context)
        library = player.library
        dims = (ctypes.c_int64 * 2)(2, 4)
        made = P()
        status = library.status(library.raw(library.functions["KernelContext_GetOutput"])(context, 0, ctypes.addressof(dims), 2, ctypes.addressof(made)))
        if status is None and made.value:
            data = P()
            library.raw(library.functions["GetTensorMutableData"])(made.value, ctypes.addressof(data))
            ctypes.memset(data.value, 0, 32)
        return 0

    def infer(op, context):
        once("shape_infer", context)
        return 0

    bodies = {2: lambda op: ctypes.addressof(name), 3: lambda op: 0, 4: lambda op, i: 1, 5: lambda op: 2, 6: lambda op, i: 1, 7: lambda op: 1, 9: lambda kernel: None,
              10: lambda op, i: 0, 11: lambda op, i: 0, 12: lambda op, i: 0, 13: lambda op: 1, 14: lambda op: 1, 15: lambda op: 1, 16: lambda op: 1,
              17: create, 18: compute, 19: infer, 20: lambda op: 1, 21: lambda op: 2 ** 31 - 1}
    ctypes.c_uint32.from_buffer(table).value = 20
    for slot, body in bodies.items():
        function = ctypes.CFUNCTYPE(*CUSTOM[slot])(body)
        keep.append(function)
        table[slot] = ctypes.cast(function, P).value
    player.library.kept += [table, *keep]
    return ctypes.addressof(table)


def run_custom(player, job):
    """A session with the operator is made and run; the calls are made in one of its callbacks."""
    when = {"kind": job["kind"], "job": job, "done": False}
    library = player.library
    op = custom_op(player, when)
    player.report({"note": "custom operator"})
    player.must("domain", "CreateCustomOpDomain", {"text": "example.custom"}, {"room": 1})
    library.status(library.raw(library.functions["CustomOpDomain_Add"])(library.objects["pool.domain.out"].pointer, op))
    player.must("custom_options", "CreateSessionOptions", {"room": 1})
    player.must("custom_options.threads", "SetIntraOpNumThreads", {"object": "pool.custom_options.options"}, 1)
    player.must("add_domain", "AddCustomOpDomain", {"object": "pool.custom_options.options"}, {"object": "pool.domain.out"})
    # Not by play(): the calls of the hook come between a call and its result.
    out = P()
    path = ctypes.create_string_buffer(b"models/custom.onnx")
    status = library.status(library.raw(library.functions["CreateSession"])(
        library.objects["pool.env.out"].pointer, ctypes.addressof(path), library.objects["pool.custom_options.options"].pointer, ctypes.addressof(out)))
    player.report({"note": f"session: {status[0] if status else 'ok'}"})
    if status is None:
        names, outputs = (P * 1)(ctypes.cast(ctypes.c_char_p(b"x"), P).value), (P * 1)(ctypes.cast(ctypes.c_char_p(b"y"), P).value)
        inputs, results = (P * 1)(library.objects["pool.value0.out"].pointer), (P * 1)()
        status = library.status(library.raw(library.functions["Run"])(out.value, None, ctypes.addressof(names), ctypes.addressof(inputs), 1,
                                                                      ctypes.addressof(outputs), 1, ctypes.addressof(results)))
        player.report({"note": f"run: {status[0] if status else 'ok'}"})
    player.report({"note": f"called: {when['done']}"})


GRAPH_KINDS = {"OrtGraph", "OrtNode", "OrtValueInfo", "OrtOpAttr", "OrtTypeInfo", "OrtTensorTypeAndShapeInfo", "OrtExternalInitializerInfo", "OrtValue",
               "OrtEpGraphSupportInfo", "OrtModelMetadata"}


def run_graph(player, job):
    """An EP's GetCapability is shown the graph of a model, and the calls are made there."""
    library = player.library
    done = []

    def look(graph, support):
        # The reference asks about bodies first.
        if done or player.get.text("Graph_GetName", graph) != "graph_graph":
            return
        done.append(True)
        borrow(player, "hook", "OrtGraph", graph)
        borrow(player, "support", "OrtEpGraphSupportInfo", support)
        if "calls" not in job:  # a view of everything first, so that nodes and values are there
            calls = [("nodes", "Graph_GetNodes", [{"object": "hook"}, {"room": 600}, 6]), ("inputs", "Graph_GetInputs", [{"object": "hook"}, {"room": 600}, 2]),
                     *((f"of{n}", "Node_GetInputs", [{"object": f"nodes.nodes.{n}"}, {"room": 600}, 4]) for n in range(4))]
            for call in calls:
                player.play(*call)
        player.sequence(job, player.functions_of(GRAPH_KINDS))

    hook = ctypes.CFUNCTYPE(None, P, P)(look)
    plugin = ctypes.CDLL(player.ep)
    P.in_dll(plugin, "abi_diff_hook").value = ctypes.cast(hook, P).value
    library.kept += [hook, plugin]
    env = library.objects["pool.env.out"].pointer
    player.report({"note": "plugin"})
    player.must("register", "RegisterExecutionProviderLibrary", {"object": "pool.env.out"}, {"text": "abi_diff"}, {"text": player.ep})
    player.must("graph_options", "CreateSessionOptions", {"room": 1})
    player.must("graph_options.threads", "SetIntraOpNumThreads", {"object": "pool.graph_options.options"}, 1)
    devices, count = P(), Z()
    library.raw(library.functions["GetEpDevices"])(env, ctypes.addressof(devices), ctypes.addressof(count))
    getter = library.raw(library.functions["EpDevice_EpName"])
    chosen = [one for one in (P * count.value).from_address(devices.value) if ctypes.string_at(getter(one)) == b"AbiDiffExecutionProvider"]
    array = (P * 1)(*chosen[:1])
    status = library.status(library.raw(library.functions["SessionOptionsAppendExecutionProvider_V2"])(
        library.objects["pool.graph_options.options"].pointer, env, ctypes.addressof(array), 1, None, None, 0))
    player.report({"note": f"append: {status}"})
    out, path = P(), ctypes.create_string_buffer(f"models/{job.get('model', 'graph')}.onnx".encode())
    status = library.status(library.raw(library.functions["CreateSession"])(env, ctypes.addressof(path),
                                                                            library.objects["pool.graph_options.options"].pointer, ctypes.addressof(out)))
    player.report({"note": f"session: {status[0] if status else 'ok'}"})
    player.report({"note": f"called: {bool(done)}"})


def run(player, job):
    if job["kind"] in KINDS:
        run_custom(player, job)
    elif job["kind"] == "graph":
        run_graph(player, job)
    else:
        raise ValueError(job["kind"])


def plugin_source():
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "plugin.c")
