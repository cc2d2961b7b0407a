"""If, Loop and Scan against ONNX Runtime: one model a fact, run with each of its feeds in turn, under every setting."""
import dataclasses
import functools

import numpy as np
import onnx
import onnx.parser
import pytest

import driver
from nodes_test import SETTINGS


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)


def scalar(value, dtype=np.int64):
    return np.array(value, dtype)


def ramp(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 4 - 1


@dataclasses.dataclass
class Fact:
    text: str
    feeds: list  # one dict a run
    opset: int = 17
    prepare: object = None  # changes the model where the text format cannot say it

    @functools.cached_property
    def model(self):
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {self.opset}]> {self.text}')
        if self.prepare:
            self.prepare(model)
        return model.SerializeToString()


def no_name(node, index):
    def change(model):
        for candidate in model.graph.node:
            if candidate.op_type == node:
                candidate.input[index] = ""
    return change


LOOP_COUNTS = [{"m": scalar(n), "x": ramp(3)} for n in (0, 1, 2, 5, 17)]

FACTS = {
    "if_branches_of_one_shape": Fact("""
        g (bool c, float[n] x) => (float[n] y) {
          y = If(c) <then_branch = t () => (float[n] a) { a = Add(x, x) },
                     else_branch = e () => (float[n] b) { b = Neg(x) }>
        }""", [{"c": scalar(c, bool), "x": ramp(4)} for c in (True, False, True)]),
    "if_branches_of_two_shapes": Fact("""
        g (bool c, float[n] x) => (float[k] z) {
          y = If(c) <then_branch = t () => (float[a] a) { a = Concat<axis = 0>(x, x) },
                     else_branch = e () => (float[b] b) { b = Neg(x) }>
          z = Mul(y, y)
        }""", [{"c": scalar(c, bool), "x": ramp(4)} for c in (True, False, True)]),
    "if_branches_of_two_ranks": Fact("""
        g (bool c, float[n, k] x) => (float z) {
          y = If(c) <then_branch = t () => (float a) { a = ReduceSum<keepdims = 0>(x) },
                     else_branch = e () => (float b) { b = Neg(x) }>
          z = Add(y, y)
        }""", [{"c": scalar(c, bool), "x": ramp(2, 3)} for c in (True, False)],
        prepare=lambda model: model.graph.output[0].type.tensor_type.ClearField("shape")),
    "if_captures_what_a_cast_of_float16_makes": Fact("""
        g (bool c, float16[n] x) => (float[n] y) {
          h = Mul(x, x) w = Cast<to = 1>(h)
          y = If(c) <then_branch = t () => (float[n] a) { a = Add(w, w) },
                     else_branch = e () => (float[n] b) { b = Neg(w) }>
        }""", [{"c": scalar(c, bool), "x": np.array([1, -2, 3, 4], np.float16)} for c in (True, False)]),
    "loop_carries_what_a_cast_of_float16_makes": Fact("""
        g (int64 m, float16[n] x) => (float[n] y) {
          h = Mul(x, x) w = Cast<to = 1>(h) yes = Constant<value = bool {1}>()
          y = Loop(m, yes, w) <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] r) {
            d = Identity(c) r = Add(a, w) }>
        }""", [{"m": scalar(3), "x": np.array([1, -2, 3, 4], np.float16)}]),
    "if_hands_through_what_it_captures": Fact("""
        g (bool[1] c, float[n] x, float[n] u) => (float[n] y, float[n] z) {
          y, z = If(c) <then_branch = t () => (float[n] a, float[n] b) { a = Identity(x) b = Identity(x) },
                        else_branch = e () => (float[n] d, float[n] f) { d = Identity(u) f = Exp(x) }>
        }""", [{"c": np.array([c]), "x": ramp(4), "u": -ramp(4)} for c in (True, False)]),
    "if_of_constants": Fact("""
        g (bool c) => (float[k] y) {
          y = If(c) <then_branch = t () => (float[2] a) { a = Constant<value = float[2] {1.0, 2.0}>() },
                     else_branch = e () => (float[3] b) { b = Constant<value = float[3] {3.0, 4.0, 5.0}>() }>
        }""", [{"c": scalar(c, bool)} for c in (True, False)]),
    "if_in_if_and_a_condition_that_is_computed": Fact("""
        g (float[n] x) => (float[k] y) {
          s = ReduceSum<keepdims = 0>(x)
          zero = Constant<value = float {0.0}>()
          c = Greater(s, zero)
          y = If(c) <then_branch = t () => (float[k] a) {
                       ten = Constant<value = float {10.0}>()
                       big = Greater(s, ten)
                       a = If(big) <then_branch = tt () => (float[k] aa) { aa = Mul(x, s) },
                                    else_branch = te () => (float[k] ab) { ab = Concat<axis = 0>(x, x) }>
                     },
                     else_branch = e () => (float[k] b) { b = Neg(x) }>
        }""", [{"x": ramp(n)} for n in (3, 9, 12, 20)]),
    "if_with_an_untaken_branch_that_does_not_fit": Fact("""
        g (bool c, float[n] x) => (float[k] y) {
          two = Constant<value = int64[2] {2, 2}>()
          y = If(c) <then_branch = t () => (float[2, 2] a) { a = Reshape(x, two) },
                     else_branch = e () => (float[b] b) { b = Neg(x) }>
        }""", [{"c": scalar(True, bool), "x": ramp(4)}, {"c": scalar(False, bool), "x": ramp(5)}],
        prepare=lambda model: model.graph.output[0].type.tensor_type.ClearField("shape")),
    "if_whose_branch_finds_its_size": Fact("""
        g (bool c, float[n] x) => (int64[r, k] y) {
          nz = NonZero(x)
          y = If(c) <then_branch = t () => (int64[p, q] a) { h = Neg(x) a = NonZero(h) },
                     else_branch = e () => (int64[v, w] b) { b = Transpose(nz) }>
        }""", [{"c": scalar(c, bool), "x": f32(0, 1, 0, 2, 3)} for c in (True, False)]),
    "loop_sums_and_stacks": Fact("""
        g (int64 m, float[n] x) => (float[n] y, float[k, n] all) {
          yes = Constant<value = bool {1}>()
          zero = Sub(x, x)
          y, all = Loop(m, yes, zero) <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] r, float[n] s) {
            d = Identity(c) r = Add(a, x) s = Mul(r, r) }>
        }""", LOOP_COUNTS),
    "loop_value_that_grows": Fact("""
        g (int64 m, float[n] x) => (float[k] y) {
          yes = Constant<value = bool {1}>()
          z = Loop(m, yes, x) <body = b (int64 i, bool c, float[a] a) => (bool d, float[b] r) {
            d = Identity(c) r = Concat<axis = 0>(a, x) }>
          y = Neg(z)
        }""", LOOP_COUNTS),
    "loop_that_its_condition_ends": Fact("""
        g (int64 m, float[n] x) => (float[n] y, int64[k] counts) {
          yes = Constant<value = bool {1}>()
          one = Constant<value = float {1.5}>()
          y, counts = Loop(m, yes, x) <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] r, int64 s) {
            r = Mul(a, one) t = ReduceMax<keepdims = 0>(r) five = Constant<value = float {5.0}>()
            d = Less(t, five) s = Identity(i) }>
        }""", [{"m": scalar(n), "x": ramp(9)} for n in (0, 2, 100)]),
    "loop_without_a_trip_count": Fact("""
        g (float[n] x) => (float[n] y, float[k, n] all) {
          yes = Constant<value = bool {1}>()
          m = Constant<value = int64 {1}>()
          y, all = Loop(m, yes, x) <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] r, float[n] s) {
            r = Add(a, a) s = Neg(a) t = ReduceMax<keepdims = 0>(r) big = Constant<value = float {99.0}>() d = Less(t, big) }>
        }""", [{"x": ramp(9)}, {"x": ramp(12)}], prepare=no_name("Loop", 0)),
    "loop_without_a_condition": Fact("""
        g (int64[1] m, float[n] x) => (float[n] y) {
          yes = Constant<value = bool {1}>()
          y = Loop(m, yes, x) <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] r) {
            d = Identity(c) f = Cast<to = 1>(i) r = Add(a, f) }>
        }""", [{"m": i64(n), "x": ramp(4)} for n in (0, 3)], prepare=no_name("Loop", 1)),
    "loop_whose_condition_is_false_from_the_start": Fact("""
        g (int64 m, bool start, float[n] x) => (float[n] y, float[k, n] all) {
          y, all = Loop(m, start, x) <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] r, float[n] s) {
            d = Identity(c) r = Add(a, x) s = Identity(r) }>
        }""", [{"m": scalar(3), "start": scalar(s, bool), "x": ramp(3)} for s in (False, True, False)]),
    "loop_that_swaps_its_values": Fact("""
        g (int64 m, float[n] x, float[k] u) => (float[p] y, float[q] z, float[n] w) {
          yes = Constant<value = bool {1}>()
          y, z, w = Loop(m, yes, x, u, x) <body = b (int64 i, bool c, float[a] a, float[b] b, float[n] k) =>
              (bool d, float[e] r, float[f] s, float[n] l) {
            d = Identity(c) r = Identity(b) s = Identity(a) l = Identity(k) }>
        }""", [{"m": scalar(n), "x": ramp(3), "u": ramp(5)} for n in (0, 1, 2, 3)]),
    "loop_body_that_gives_one_value_twice": Fact("""
        g (int64 m, float[n] x) => (float[n] y, float[n] z, float[k, n] all) {
          yes = Constant<value = bool {1}>()
          y, z, all = Loop(m, yes, x, x) <body = b (int64 i, bool c, float[n] a, float[n] b) =>
              (bool d, float[n] r, float[n] r2, float[n] s) {
            d = Identity(c) r = Add(a, x) r2 = Identity(r) s = Identity(r) }>
        }""", LOOP_COUNTS),
    "loop_body_that_hands_in_what_it_captures": Fact("""
        g (int64 m, float[n] x, float[n] u) => (float[n] y, float[k, n] all) {
          yes = Constant<value = bool {1}>()
          y, all = Loop(m, yes, x) <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] r, float[n] s) {
            d = Identity(c) r = Identity(u) s = Identity(a) }>
        }""", [{"m": scalar(n), "x": ramp(3), "u": -ramp(3)} for n in (0, 1, 2, 4)]),
    "loop_over_slices_of_unequal_length": Fact("""
        g (int64 m, float[n] x) => (float y) {
          yes = Constant<value = bool {1}>()
          zero = Constant<value = float {0.0}>()
          axis = Constant<value = int64[1] {0}>()
          y = Loop(m, yes, zero) <body = b (int64 i, bool c, float a) => (bool d, float r) {
            d = Identity(c) start = Constant<value = int64[1] {0}>() stop = Unsqueeze(i, axis)
            part = Slice(x, start, stop) t = ReduceSum<keepdims = 0>(part) r = Add(a, t) }>
        }""", [{"m": scalar(n), "x": ramp(9)} for n in (0, 4, 9, 4)]),
    "loop_whose_body_finds_sizes": Fact("""
        g (int64 m, float[n] x) => (float[k] y, int64[j] counts) {
          yes = Constant<value = bool {1}>()
          y, counts = Loop(m, yes, x) <body = b (int64 i, bool c, float[a] a) => (bool d, float[e] r, int64 s) {
            d = Identity(c) nz = NonZero(a) t = Transpose(nz) g = GatherND(a, t) one = Constant<value = float {1.0}>()
            r = Sub(g, one) s = Size(g) }>
        }""", [{"m": scalar(n), "x": f32(0, 1, 2, 3, 4, 3)} for n in (0, 1, 2, 3, 5)]),
    "loop_in_loop": Fact("""
        g (int64 m, int64 n, float[w] x) => (float[w] y, float[k, l, w] all) {
          yes = Constant<value = bool {1}>()
          y, all = Loop(m, yes, x) <body = b (int64 i, bool c, float[w] a) => (bool d, float[w] r, float[v, w] s) {
            d = Identity(c)
            f = Cast<to = 1>(i)
            r, s = Loop(n, c, a) <body = b2 (int64 j, bool c2, float[w] a2) => (bool d2, float[w] r2, float[w] s2) {
              d2 = Identity(c2) t = Add(a2, f) r2 = Mul(t, x) s2 = Neg(r2) }> }>
        }""", [{"m": scalar(m), "n": scalar(n), "x": ramp(3)} for m, n in ((2, 3), (0, 3), (3, 1))]),
    "if_in_loop": Fact("""
        g (int64 m, float[n] x) => (float[n] y, float[k, n] all) {
          yes = Constant<value = bool {1}>()
          y, all = Loop(m, yes, x) <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] r, float[n] s) {
            d = Identity(c) two = Constant<value = int64 {2}>() zero = Constant<value = int64 {0}>()
            odd = Mod(i, two) even = Equal(odd, zero)
            r = If(even) <then_branch = t () => (float[n] p) { p = Add(a, x) },
                          else_branch = e () => (float[n] q) { q = Neg(a) }>
            s = Identity(r) }>
        }""", LOOP_COUNTS),
    "loop_in_if": Fact("""
        g (bool go, int64 m, float[n] x) => (float[k] y) {
          y = If(go) <then_branch = t () => (float[k] p) {
                        yes = Constant<value = bool {1}>()
                        p = Loop(m, yes, x) <body = b (int64 i, bool c, float[a] a) => (bool d, float[f] r) {
                          d = Identity(c) r = Concat<axis = 0>(a, x) }> },
                      else_branch = e () => (float[k] q) { q = Exp(x) }>
        }""", [{"go": scalar(g, bool), "m": scalar(2), "x": ramp(3)} for g in (True, False)]),
    "loop_that_reads_a_value_of_two_levels_above": Fact("""
        g (bool go, float[n, n] x, float[n, n] w) => (float[n, n] y) {
          h = MatMul(x, w)
          m = Constant<value = int64 {3}>()
          y = If(go) <then_branch = t () => (float[n, n] p) {
                        yes = Constant<value = bool {1}>()
                        p = Loop(m, yes, x) <body = b (int64 i, bool c, float[n, n] a) => (bool d, float[n, n] r) {
                          d = Identity(c) s = MatMul(a, h) r = Relu(s) }> },
                      else_branch = e () => (float[n, n] q) { q = Identity(h) }>
        }""", [{"go": scalar(g, bool), "x": ramp(4, 4), "w": ramp(4, 4)} for g in (True, False)]),
    "loop_of_convolutions": Fact("""
        g (int64 m, float[1, 8, h, w] x) => (float[1, 8, h, w] y) {
          yes = Constant<value = bool {1}>()
          k = Constant<value_float = 0.01>()
          shape = Constant<value = int64[4] {8, 8, 3, 3}>()
          weight = Expand(k, shape)
          z = Relu(x)
          r = Loop(m, yes, z) <body = b (int64 i, bool c, float[1, 8, h, w] a) => (bool d, float[1, 8, h, w] r) {
            d = Identity(c) v = Conv<pads = [1, 1, 1, 1]>(a, weight) s = Relu(v) r = Add(s, z) }>
          y = Conv<pads = [1, 1, 1, 1]>(r, weight)
        }""", [{"m": scalar(n), "x": ramp(1, 8, 5, 6)} for n in (0, 1, 3)]),
    "scan_sums": Fact("""
        g (float[w] s, float[n, w] x) => (float[w] y, float[n, w] all) {
          y, all = Scan<num_scan_inputs = 1, body = b (float[w] a, float[w] v) => (float[w] r, float[w] o) {
            r = Add(a, v) o = Identity(r) }>(s, x)
        }""", [{"s": ramp(3), "x": ramp(n, 3)} for n in (1, 4, 7)]),
    "scan_along_other_axes_and_backwards": Fact("""
        g (float[p, q] s, float[p, n, q] x, float[q, p, n] u) => (float[p, q] y, float[p, q, n] all, float[q, n, p] more) {
          y, all, more = Scan<num_scan_inputs = 2, scan_input_axes = [1, -1], scan_input_directions = [0, 1],
              scan_output_axes = [-1, 1], scan_output_directions = [1, 0],
              body = b (float[p, q] a, float[p, q] v, float[q, p] t) => (float[p, q] r, float[p, q] o, float[q, p] o2) {
            tt = Transpose(t) z = Add(v, tt) r = Add(a, z) o = Mul(r, r) o2 = Transpose(z) }>(s, x, u)
        }""", [{"s": ramp(2, 3), "x": ramp(2, n, 3), "u": -ramp(3, 2, n)} for n in (1, 4)]),
    "scan_that_captures": Fact("""
        g (float[w] s, float[n, w] x, float[w] k) => (float[w] y, float[n] all) {
          h = Mul(k, k)
          y, all = Scan<num_scan_inputs = 1, body = b (float[w] a, float[w] v) => (float[w] r, float o) {
            t = Mul(v, h) r = Add(a, t) o = ReduceSum<keepdims = 0>(r) }>(s, x)
        }""", [{"s": ramp(3), "x": ramp(5, 3), "k": ramp(3)}]),
    "scan_without_states": Fact("""
        g (float[n, w] x) => (float[n, w] y) {
          y = Scan<num_scan_inputs = 1, body = b (float[w] v) => (float[w] o) { o = Softmax(v) }>(x)
        }""", [{"x": ramp(5, 3)}]),
    "scan_with_a_batch": Fact("""
        g (int64[b] len, float[b, w] s, float[b, n, w] x) => (float[b, w] y, float[b, n, w] all) {
          y, all = Scan<num_scan_inputs = 1, directions = [1], body = g2 (float[w] a, float[w] v) => (float[w] r, float[w] o) {
            r = Add(a, v) o = Identity(r) }>(len, s, x)
        }""", [{"len": i64(4, 4), "s": ramp(2, 3), "x": ramp(2, 4, 3)}, {"len": i64(4, 2), "s": ramp(2, 3), "x": ramp(2, 4, 3)}],
        opset=8),
    "loop_with_a_constant_trip_count": Fact("""
        g (float[n] x) => (float[n] y, float[k, n] all, int64[k] places) {
          m = Constant<value = int64 {4}>()
          yes = Constant<value = bool {1}>()
          y, all, places = Loop(m, yes, x) <body = b (int64 i, bool c, float[n] a) =>
                                             (bool d, float[n] r, float[n] s, int64 p) {
            d = Identity(c) r = Add(a, x) s = Mul(r, r) p = Identity(i) }>
        }""", [{"x": ramp(5)}, {"x": ramp(9)}]),
    "loop_of_no_trips": Fact("""
        g (float[n] x) => (float[n] y, float[k, n] all, int64[k] places) {
          m = Constant<value = int64 {0}>()
          yes = Constant<value = bool {1}>()
          y, all, places = Loop(m, yes, x) <body = b (int64 i, bool c, float[n] a) =>
                                             (bool d, float[n] r, float[n] s, int64 p) {
            d = Identity(c) r = Add(a, x) s = Mul(r, r) p = Identity(i) }>
        }""", [{"x": ramp(5)}, {"x": ramp(9)}]),
    "loop_that_its_body_ends_at_once": Fact("""
        g (float[n] x) => (float[n] y, float[k, n] all, int64[k] places) {
          m = Constant<value = int64 {4}>()
          yes = Constant<value = bool {1}>()
          y, all, places = Loop(m, yes, x) <body = b (int64 i, bool c, float[n] a) =>
                                             (bool d, float[n] r, float[n] s, int64 p) {
            d = Constant<value = bool {0}>() r = Add(a, x) s = Mul(r, r) p = Identity(i) }>
        }""", [{"x": ramp(5)}, {"x": ramp(9)}]),
    "loop_that_its_body_may_end": Fact("""
        g (float[n] x) => (float[n] y, float[k, n] all, int64[k] places) {
          m = Constant<value = int64 {4}>()
          yes = Constant<value = bool {1}>()
          y, all, places = Loop(m, yes, x) <body = b (int64 i, bool c, float[n] a) =>
                                             (bool d, float[n] r, float[n] s, int64 p) {
            d = Not(c) r = Add(a, x) s = Mul(r, r) p = Identity(i) }>
        }""", [{"x": ramp(5)}, {"x": ramp(9)}]),
    "loop_with_a_constant_trip_count_and_no_condition": Fact("""
        g (float[n] x) => (float[n] y, float[k, n] all, int64[k] places) {
          m = Constant<value = int64 {4}>()
          yes = Constant<value = bool {1}>()
          y, all, places = Loop(m, yes, x) <body = b (int64 i, bool c, float[n] a) =>
                                             (bool d, float[n] r, float[n] s, int64 p) {
            d = Identity(c) r = Add(a, x) s = Mul(r, r) p = Identity(i) }>
        }""", [{"x": ramp(5)}, {"x": ramp(9)}], prepare=no_name("Loop", 1)),
    "loop_of_the_first_version": Fact("""
        g (int64 m, float[n] x) => (float[n] y) {
          yes = Constant<value = bool {1}>()
          y = Loop(m, yes, x) <body = b (int64 i, bool c, float[n] a) => (bool d, float[n] r) {
            d = Identity(c) r = Add(a, x) }>
        }""", LOOP_COUNTS, opset=10),
}


def reference(fact):
    import onnxruntime
    session = onnxruntime.InferenceSession(fact.model, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in fact.feeds]


@functools.cache
def references():
    return {name: reference(fact) for name, fact in FACTS.items()}


@pytest.fixture(scope="module", params=SETTINGS)
def outcomes(request, tmp_path_factory):
    options, environment = SETTINGS[request.param]
    cases = []
    for name, fact in FACTS.items():
        for run, feed in enumerate(fact.feeds):
            cases.append(driver.Case(f"{name}_{run}", fact.model, feed, references()[name][run]))
    return driver.run(cases, tmp_path_factory.mktemp("control_flow"), options, environment)


def same_shape(expected, actual):
    """Without an iteration, ONNX Runtime gives 0 for dimensions that Tenon knows from the shapes of the run."""
    if actual.shape == expected.shape:
        return True
    return (expected.size == actual.size == 0 and expected.shape[0] == actual.shape[0] == 0
            and expected.ndim == actual.ndim and not any(expected.shape))


@pytest.mark.parametrize("name", FACTS)
def test_gives_what_onnx_runtime_gives(name, outcomes):
    for run, want in enumerate(references()[name]):
        outcome = outcomes[f"{name}_{run}"]
        assert outcome.ok, f"run {run}: {outcome.status}"
        assert len(outcome.outputs) == len(want)
        for index, (expected, actual) in enumerate(zip(want, outcome.outputs)):
            where = f"run {run}, output {index}"
            assert actual.dtype == expected.dtype and same_shape(expected, actual), (
                f"{where} is {actual.dtype}{list(actual.shape)}, not {expected.dtype}{list(expected.shape)}")
            if expected.size == 0:
                continue
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5, err_msg=where)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))


def packed_model(text, kind):
    text = text.replace("KIND", str(getattr(onnx.TensorProto, kind)))
    return onnx.parser.parse_model(f'<ir_version: 13, opset_import: ["" : 25]> {text}').SerializeToString()


# Tensors of two or four elements a byte; ONNX Runtime has no such bodies.
PACKED = {
    "if": ("""
        g (bool c, int8[3,3] x) => (int8[3,n] y) {
          p = Cast <to = KIND> (x)
          q = If(c) <then_branch = t () => (a) { a = Transpose <perm = [1, 0]> (p) }, else_branch = e () => (b) { w = Constant <value_ints = [0, 0, 0, 3]> () b = Pad(p, w) }>
          y = Cast <to = 3> (q)
        }""", lambda x: {"c": [(scalar(True, bool), x.T), (scalar(False, bool), np.pad(x, [(0, 0), (0, 3)]))]}),
    "loop": ("""
        g (int64 m, int8[3,3] x) => (int8[3,n] y) {
          p = Cast <to = KIND> (x)
          q = Loop(m, , p) <body = b (int64 i, bool go, s) => (bool next, r) { next = Identity(go) w = Constant <value_ints = [0, 0, 0, 3]> () r = Pad(s, w) }>
          y = Cast <to = 3> (q)
        }""", lambda x: {"m": [(scalar(n), np.pad(x, [(0, 0), (0, 3 * n)])) for n in (0, 1, 4)]}),
    "stacked": ("""
        g (int64 m, int8[4,2] x) => (int8[n,4,2] y) {
          p = Cast <to = KIND> (x)
          z, q = Loop(m, , x) <body = b (int64 i, bool go, s) => (bool next, u, r) { next = Identity(go) u = Identity(s) r = Identity(p) }>
          y = Cast <to = 3> (q)
        }""", lambda x: {"m": [(scalar(n), np.stack([x[:, :2]] * n)) for n in (1, 3)]}),
    "scan": ("""
        g (int8[3,4] x) => (int8[3,4] y) {
          p = Cast <to = KIND> (x)
          q = Scan(p) <num_scan_inputs = 1, body = b (r) => (s) { t = Flatten <axis = 0> (r) o = Constant <value_ints = [0]> () s = Squeeze(t, o) }>
          y = Cast <to = 3> (q)
        }""", lambda x: {"": [(None, x)]}),
}


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT2", "UINT2"])
@pytest.mark.parametrize("name", PACKED)
def test_packed_tensors_go_through_bodies(name, kind, tmp_path):
    text, runs = PACKED[name]
    low, high = {"INT4": (-8, 8), "UINT4": (0, 16), "INT2": (-2, 2), "UINT2": (0, 4)}[kind]
    x = np.random.default_rng(7).integers(low, high, {"stacked": (4, 2), "scan": (3, 4)}.get(name, (3, 3))).astype(np.int8)
    (key, cases), = runs(x).items()
    for number, (fed, wanted) in enumerate(cases):
        feeds = {"x": x} | ({key: fed} if key else {})
        outcome = driver.run([driver.Case(f"{name}{number}", packed_model(text, kind), feeds, [wanted])], tmp_path)[f"{name}{number}"]
        assert outcome.ok, outcome.status
        np.testing.assert_array_equal(outcome.outputs[0], wanted)


def test_packed_slices_that_share_a_byte_are_refused(tmp_path):
    x = np.zeros((3, 3), np.int8)
    outcome = driver.run([driver.Case("odd", packed_model(PACKED["scan"][0].replace("[3,4]", "[3,3]"), "INT4"), {"x": x}, [x])], tmp_path)["odd"]
    assert "do not fill whole bytes" in outcome.status
