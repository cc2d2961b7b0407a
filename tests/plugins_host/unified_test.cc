// Memory of a device that its EP library declares unified ("tenon.unified_memory" in the device's metadata): the host
// reads it in place (S3.1), and a bad value is an error. The library's "GPU" works in the host's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/ep.h>
#include <tenon/session.h>

#include <optional>
#include <string>
#include <vector>

#include "bad_plugin_host.h"
#include "base/testing.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Unified : public ::testing::Test {
 protected:
  static constexpr const char* kUnified = "TENON_BAD_PLUGIN_UNIFIED";
  // Bytes that a run of y = Relu(Relu(x) - x) copies; the device runs the Relus.
  size_t copied(const char* unified) {
    std::optional<bad_plugin::Variable> declared;
    if (unified != nullptr) declared.emplace(kUnified, unified);
    EXPECT_THAT(register_ep_library("bad", BAD_PLUGIN), is_ok());
    size_t bytes = 0;
    {
      api_testing::OnnxModel model;
      model.input("x", DataType::kFloat, {3})
          .output("y", DataType::kFloat, {3})
          .node({"Relu", {"x"}, {"a"}})
          .node({"Sub", {"a", "x"}, {"b"}})
          .node({"Relu", {"b"}, {"y"}});
      // The second device is the GPU.
      const auto session = model.load({.threads = 1, .eps = {{.ep_name = "BadEp", .devices = {1}}}});
      EXPECT_THAT(session, is_ok());
      if (session.ok()) {
        const std::pair<std::string, Tensor> inputs[] = {{"x", api_testing::floats({3}, {-1, 2, -3})}};
        RunReport report;
        const auto outputs = (*session)->run(inputs, {.report = &report});
        EXPECT_THAT(outputs, is_ok());
        if (outputs.ok()) {
          EXPECT_THAT(api_testing::values_of((*outputs)[0]), ElementsAre(1, 0, 3));
        }
        bytes = report.copies.bytes_copied();
      }
    }
    EXPECT_THAT(unregister_ep_library("bad"), is_ok());
    return bytes;
  }

 private:
  const bad_plugin::WithDevice with_device_;
};

TEST_F(Unified, TheHostReadsTheDevicesMemoryWhereItLies) {
  const size_t apart = copied(nullptr);
  const size_t unified = copied("1");
  EXPECT_GT(apart, unified);
  EXPECT_EQ(unified, 24u) << "only the program's own input and output, which lie in plain host memory";
  EXPECT_EQ(apart, 48u) << "and both values between the EPs";
  EXPECT_EQ(copied("allocators"), unified);
  EXPECT_EQ(copied("0"), apart);
}

TEST_F(Unified, AnUnknownValueIsAnError) {
  const bad_plugin::Variable declared(kUnified, "perhaps");
  EXPECT_THAT(register_ep_library("bad", BAD_PLUGIN),
              has_status(StatusCode::kDeviceError, AllOf(HasSubstr("EP library \"bad\""), HasSubstr("\"perhaps\""))));
}

}  // namespace
}  // namespace tenon
