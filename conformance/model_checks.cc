// Checks of small models through the EP: the results against the host's CPU EP, and the memory around the tensors.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "conformance/tensors.h"
#include "programs/relu_model.h"

namespace tenon::conformance {

namespace {

using test::proto_bytes;
using test::proto_number;

constexpr int64_t kRows = 4, kColumns = 8;
constexpr const char* kOperators = "Relu, Add, MatMul, Sigmoid, Mul";

std::string node(const char* name, const char* type, const std::vector<std::string>& inputs, const char* output) {
  std::string bytes;
  for (const std::string& input : inputs) bytes += proto_bytes(1, input);
  return proto_bytes(1, bytes + proto_bytes(2, output) + proto_bytes(3, name) + proto_bytes(4, type));
}

// A float input or output [rows, kColumns]; rows 0: the symbol "n".
std::string value_info(const char* name, int64_t rows) {
  const std::string first = rows > 0 ? proto_number(1, static_cast<uint64_t>(rows)) : proto_bytes(2, "n");
  const std::string shape = proto_bytes(1, first) + proto_bytes(1, proto_number(1, kColumns));
  return proto_bytes(1, name) + proto_bytes(2, proto_bytes(1, proto_number(1, 1) + proto_bytes(2, shape)));
}

// y = Sigmoid(s * w) . s with s = Relu(x) + x
std::vector<std::byte> small_model(int64_t rows) {
  std::string weights(kColumns * kColumns * sizeof(float), '\0');
  for (int64_t i = 0; i < kColumns * kColumns; ++i) {
    const float weight = static_cast<float>((i * 13) % 29 - 14) / 16;
    std::memcpy(weights.data() + static_cast<size_t>(i) * sizeof(float), &weight, sizeof(float));
  }
  const std::string w = proto_number(1, kColumns) + proto_number(1, kColumns) + proto_number(2, 1) +
                        proto_bytes(8, "w") + proto_bytes(9, weights);
  const std::string graph = node("relu", "Relu", {"x"}, "r") + node("add", "Add", {"r", "x"}, "s") +
                            node("matmul", "MatMul", {"s", "w"}, "m") + node("sigmoid", "Sigmoid", {"m"}, "g") +
                            node("mul", "Mul", {"g", "s"}, "y") + proto_bytes(2, "small") + proto_bytes(5, w) +
                            proto_bytes(11, value_info("x", rows)) + proto_bytes(12, value_info("y", rows));
  const std::string model = proto_number(1, 8) + proto_bytes(7, graph) + proto_bytes(8, proto_number(2, 17));
  const auto* bytes = reinterpret_cast<const std::byte*>(model.data());
  return {bytes, bytes + model.size()};
}

// Signs and sizes that differ from run to run.
std::vector<float> numbers(int run, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>((i * 37 + run * 101) % 61 - 30) / 16;
  return values;
}

// The model's nodes that the EP runs are noted; none is a skip.
bool note_nodes(Check& check, const OrtSession* session) {
  check.step("Session_GetEpGraphAssignmentInfo");
  const auto eps = check.host().node_eps(session);
  if (!check.expect_ok(eps.status(), "The nodes by EP")) return false;
  const auto own = eps->find(check.host().ep_name());
  if (own == eps->end()) {
    check.skip(format("The EP takes no node of the model ({}).", kOperators));
    return false;
  }
  std::string names;
  for (const std::string& type : own->second) names += (names.empty() ? "" : ", ") + type;
  check.note(format("The EP runs {}.", names));
  return true;
}

Result<std::vector<float>> run(Check& check, OrtSession* session, std::vector<float> x, int64_t rows) {
  const int64_t shape[] = {rows, kColumns};
  TENON_TRY_ASSIGN(const auto input, check.host().tensor_over(x, shape));
  TENON_TRY_ASSIGN(const auto output, check.host().run_for_output(session, input.get()));
  return read_floats(check, output.get(), {rows, kColumns});
}

void compare(Check& check, int64_t rows, const std::vector<int64_t>& batches) {
  if (check.host().ep_name() == "CPUExecutionProvider")
    return check.skip("It is the host's own CPU EP, which the results of others are compared with.");
  const std::vector<std::byte> model = small_model(rows);
  check.step("creating a session on the EP");
  const auto session = check.host().create_session(model);
  if (!check.expect_ok(session.status(), format("A session of {}", kOperators))) return;
  if (!note_nodes(check, session->get())) return;
  check.step("creating a session on the CPU EP");
  const auto reference = check.host().create_session(model, {}, false);
  if (!check.expect_ok(reference.status(), "The same session on the host's CPU EP")) return;
  for (size_t i = 0; i < batches.size(); ++i) {
    const int64_t count = batches[i] * kColumns;
    const std::vector<float> x = numbers(static_cast<int>(i), count);
    check.step(format("run {} of [{},{}]", i + 1, batches[i], kColumns));
    const auto y = run(check, session->get(), x, batches[i]);
    if (!check.expect_ok(y.status(), format("Run {} of [{},{}] on the EP", i + 1, batches[i], kColumns))) return;
    const auto expected = run(check, reference->get(), x, batches[i]);
    if (!check.expect_ok(expected.status(), "The same run on the host's CPU EP")) return;
    for (size_t at = 0; at < y->size(); ++at) {
      const float right = (*expected)[at];
      // Negated, so that NaN is wrong too.
      if (std::fabs((*y)[at] - right) <= 1e-3f + 2e-3f * std::fabs(right)) continue;
      return check.fail(format("Run {} of [{},{}]: element {} of \"y\" is {}, and the host's CPU EP gives {}.", i + 1,
                               batches[i], kColumns, at, (*y)[at], right));
    }
  }
}

// The results of the EP are those of the host's CPU EP, run after run.
void model_agrees(Check& check) { compare(check, kRows, {kRows, kRows, kRows}); }

// The same with a first dimension that only the run says.
void model_of_any_batch(Check& check) { compare(check, 0, {4, 1, 7, 4}); }

// An input and an output between guards: a kernel writes its output, all of it, and nothing beside it.
void within_tensors(Check& check) {
  constexpr int64_t kCount = 3 * 5;
  constexpr size_t kGuard = 1024;  // floats on both sides
  constexpr float kUntouched = -12345.0f;
  check.step("creating a session of Relu");
  const auto session = check.host().create_session(test::relu_model({3, 5}));
  if (!check.expect_ok(session.status(), "A session of Relu on the EP")) return;
  if (!note_nodes(check, session->get())) return;
  std::vector<float> x(2 * kGuard + kCount, kUntouched), y = x;
  const std::vector<float> values = numbers(0, kCount);
  std::copy(values.begin(), values.end(), x.begin() + kGuard);
  const std::vector<float> x_before = x;
  const int64_t shape[] = {3, 5};
  const auto input = check.host().tensor_over({x.data() + kGuard, kCount}, shape);
  const auto output = check.host().tensor_over({y.data() + kGuard, kCount}, shape);
  if (!check.expect_ok(input.status(), "A tensor") || !check.expect_ok(output.status(), "A tensor")) return;
  check.step("Run on tensors between guards");
  if (!check.expect_ok(check.host().run(session->get(), input->get(), output->get()), "Relu of [3,5]")) return;
  check.expect(x == x_before, "Relu of [3,5] writes into its input \"x\", or beside it.");
  for (size_t i = 0; i < y.size(); ++i) {
    const bool inside = i >= kGuard && i < kGuard + kCount;
    const float right = inside ? std::fmax(values[i - kGuard], 0.0f) : kUntouched;
    if (y[i] == right) continue;
    if (inside)
      return check.fail(format("Relu of [3,5]: element {} of \"y\" is {} instead of {}.", i - kGuard, y[i], right));
    return check.fail(
        i < kGuard ? format("Relu of [3,5] writes {} bytes before its output \"y\".", (kGuard - i) * sizeof(float))
                   : format("Relu of [3,5] writes behind its output \"y\", at byte {} of {}.",
                            (i - kGuard) * sizeof(float), kCount * sizeof(float)));
  }
}

}  // namespace

const std::vector<CheckEntry> kModelChecks = {
    {"KernelsKeepToTheirTensors", "-", &within_tensors},
    {"SmallModelAgreesWithTheCpu", "-", &model_agrees},
    {"SmallModelOfAnyBatchAgrees", "-", &model_of_any_batch},
};

}  // namespace tenon::conformance
