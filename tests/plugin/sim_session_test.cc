// The simulated EP's plugin through the C++ API: what the ledger and explain say of copies, and results of whole
// models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/ep.h>
#include <tenon/session.h>

#include <cstdlib>

#include "base/testing.h"
#include "cli/conformance/relu_model.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kEp = "TenonSimExecutionProvider";
// Abs is an operator that the simulated EP does not have.
const std::vector<std::string> kMixed = {"Abs", "Neg", "Abs", "Neg", "Abs"};

class SimSession : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* plugin = std::getenv("TENON_SIM_PLUGIN");
    ASSERT_NE(plugin, nullptr);
    ASSERT_THAT(register_ep_library("sim", plugin), is_ok());
  }
  static void TearDownTestSuite() { EXPECT_THAT(unregister_ep_library("sim"), is_ok()); }

  // `device`: 0 has HOST_ACCESSIBLE memory, 1 has none.
  static std::shared_ptr<Session> load(const std::vector<std::string>& ops, size_t device,
                                       const std::string& mode = "compile") {
    const auto bytes = test::chain_model(ops, {4});
    auto session = Session::load_from_bytes(
        bytes, {.threads = 1, .eps = {{.ep_name = kEp, .options = {{"mode", mode}}, .devices = {device}}}});
    EXPECT_THAT(session, is_ok());
    return session.ok() ? *session : nullptr;
  }

  static Tensor floats(const std::vector<float>& values) {
    Tensor tensor = Tensor::allocate(DataType::kFloat, {static_cast<int64_t>(values.size())}).value();
    std::copy(values.begin(), values.end(), tensor.data_as<float>());
    return tensor;
  }
  static std::vector<float> values_of(const Tensor& tensor) {
    Tensor host = Tensor::allocate(tensor.type(), tensor.shape()).value();
    EXPECT_THAT(copy(host, tensor), is_ok());
    return {host.data_as<float>(), host.data_as<float>() + tensor.shape().element_count()};
  }
  static std::vector<std::string> copies(const RunReport& report) {
    std::vector<std::string> texts;
    for (const CopyRecord& record : report.copies.records)
      texts.push_back(record.what + std::string(" to ") + record.target.to_string() + ": " +
                      std::string(copy_reason_name(record.reason)));
    return texts;
  }
};

// S3.3, S6.1: a chain that changes the EP four times moves no byte when they share memory.
TEST_F(SimSession, SharedMemoryMeansNoCopies) {
  for (const char* mode : {"compile", "kernels"}) {
    const auto session = load(kMixed, 0, mode);
    ASSERT_NE(session, nullptr);
    EXPECT_THAT(session->explain({}).value(), AllOf(HasSubstr("host_accessible"), Not(HasSubstr("copy:"))));
    Binding binding = session->make_binding().value();
    ASSERT_THAT(binding.bind_input("x", floats({-2, 8, -18, 1})), is_ok());
    RunReport report;
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
      EXPECT_THAT(values_of(binding.output("y")), ElementsAre(2, 8, 18, 1));
      EXPECT_THAT(copies(report), IsEmpty()) << mode;
    }
  }
}

// The same without that allocator: the ledger and explain name the copies that come back, and why.
TEST_F(SimSession, WithoutSharedMemoryTheLedgerNamesEachCopyAndWhy) {
  for (const char* mode : {"compile", "kernels"}) {
    const auto session = load(kMixed, 1, mode);
    ASSERT_NE(session, nullptr);
    EXPECT_THAT(session->explain({}).value(),
                AllOf(HasSubstr("copy: \"v1\", 16 bytes, from cpu to gpu:1 (vendor 0x544e), because"),
                      Not(HasSubstr("host_accessible"))));
    Binding binding = session->make_binding().value();
    ASSERT_THAT(binding.bind_input("x", floats({-2, 8, -18, 1})), is_ok());
    RunReport report;
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
      EXPECT_THAT(values_of(binding.output("y")), ElementsAre(2, 8, 18, 1));
      EXPECT_EQ(report.copies.bytes_copied(), 4 * 4 * sizeof(float));
      EXPECT_THAT(copies(report),
                  ElementsAre("v1 to gpu:1 (vendor 0x544e): not_compatible", "v2 to cpu: not_compatible",
                              "v3 to gpu:1 (vendor 0x544e): not_compatible", "v4 to cpu: not_compatible"));
    }
  }
}

// S3.2: what is bound in either kind of the device's memory is used in place, in any mixture.
TEST_F(SimSession, BoundTensorsAreUsedInPlace) {
  const auto session = load({"Neg"}, 0);
  ASSERT_NE(session, nullptr);
  const MemoryPlace device = session->input_places()[0].place;
  EXPECT_EQ(session->input_places()[0].ep_name, kEp);
  EXPECT_EQ(device.kind, MemoryKind::kDefault);
  MemoryPlace shared = device;
  shared.kind = MemoryKind::kHostAccessible;
  const Tensor from = floats({1, -2, 3, -4});
  for (const MemoryPlace& x_place : {device, shared}) {
    for (const MemoryPlace& y_place : {device, shared}) {
      Binding binding = session->make_binding().value();
      const Tensor x = session->allocate(DataType::kFloat, {4}, x_place).value();
      const Tensor y = session->allocate(DataType::kFloat, {4}, y_place).value();
      ASSERT_THAT(copy(x, from), is_ok());
      ASSERT_THAT(binding.bind_input("x", x), is_ok());
      ASSERT_THAT(binding.bind_output("y", y), is_ok());
      RunReport report;
      ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
      EXPECT_THAT(copies(report), IsEmpty()) << x_place.to_string() << " to " << y_place.to_string();
      EXPECT_EQ(binding.output("y").data(), y.data());
      EXPECT_THAT(values_of(y), ElementsAre(-1, 2, -3, 4));
    }
  }
}

// A feed in plain host memory is a copy that strict mode refuses, with the reason.
TEST_F(SimSession, AFeedInPlainHostMemoryIsACopyThatIsNamed) {
  const auto session = load({"Neg"}, 0);
  ASSERT_NE(session, nullptr);
  Binding binding = session->make_binding().value();
  ASSERT_THAT(binding.bind_input("x", floats({1, -2, 3, -4})), is_ok());
  RunReport report;
  ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
  ASSERT_EQ(report.copies.records.size(), 1u);
  EXPECT_STREQ(report.copies.records[0].what, "x");
  EXPECT_EQ(report.copies.records[0].reason, CopyReason::kNotCompatible);
}

}  // namespace
}  // namespace tenon
