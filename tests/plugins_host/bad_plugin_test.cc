// Mistakes of an EP library: each is a status that names library and member, the library is unloaded, and a correct one
// works afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/ep.h>
#include <tenon/session.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bad_plugin_host.h"
#include "base/testing.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using bad_plugin::kPlugin;
using bad_plugin::plugin_is_loaded;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// y = Relu(Relu(x) - x), of which the plugin takes the Relus.
Result<std::shared_ptr<Session>> load_model(const SessionOptions& options) {
  api_testing::OnnxModel model;
  model.input("x", DataType::kFloat, {3})
      .output("y", DataType::kFloat, {3})
      .node({"Relu", {"x"}, {"a"}})
      .node({"Sub", {"a", "x"}, {"b"}})
      .node({"Relu", {"b"}, {"y"}});
  return model.load(options);
}

const SessionOptions kWithEp = {.threads = 1, .eps = {{.ep_name = "BadEp"}}};

struct Outcome {
  Status registered, loaded, run;
  std::vector<float> values;
};

Outcome try_plugin() {
  Outcome outcome;
  outcome.registered = register_ep_library("bad", kPlugin);
  if (!outcome.registered.ok()) return outcome;
  {
    const auto session = load_model(kWithEp);
    outcome.loaded = session.status();
    if (session.ok()) {
      const std::pair<std::string, Tensor> inputs[] = {{"x", api_testing::floats({3}, {-1, 2, -3})}};
      const auto outputs = (*session)->run(inputs);
      outcome.run = outputs.status();
      if (outputs.ok()) outcome.values = api_testing::values_of((*outputs)[0]);
    }
  }
  EXPECT_TRUE(unregister_ep_library("bad").ok());
  return outcome;
}

void expect_honest_plugin_works() {
  const Outcome outcome = try_plugin();
  EXPECT_TRUE(outcome.registered.ok()) << outcome.registered.to_string();
  EXPECT_TRUE(outcome.loaded.ok()) << outcome.loaded.to_string();
  EXPECT_TRUE(outcome.run.ok()) << outcome.run.to_string();
  EXPECT_THAT(outcome.values, ElementsAre(1, 0, 3));
  EXPECT_FALSE(plugin_is_loaded());
}

TEST(PluginHost, AnHonestPluginRuns) { expect_honest_plugin_works(); }

// Compiled and with a kernel of a registry alike: the model's node says what to look at.
TEST(PluginHost, AWrongShapeIsNamedByTheModelsNode) {
  const bad_plugin::Lie lie("another shape");
  for (const bool kernels : {false, true}) {
    std::optional<bad_plugin::Variable> with_kernels;
    if (kernels) with_kernels.emplace("TENON_BAD_PLUGIN_KERNELS", "1");
    const Outcome outcome = try_plugin();
    EXPECT_TRUE(outcome.loaded.ok()) << outcome.loaded.to_string();
    EXPECT_THAT(outcome.run.message(),
                AllOf(HasSubstr("Output 0 (\"a\" of Relu \"Relu_of_a\") has the shape [3] in the model, and the kernel "
                                "asks for [3,1]."),
                      HasSubstr(kernels ? "while running Relu \"Relu_of_a\"" : "_0\" of Relu \"Relu_of_a\"")));
  }
}

enum class Step { kRegister, kLoad, kRun, kNone };
using Case = bad_plugin::LieCase<Step>;

class BadPlugin : public ::testing::TestWithParam<Case> {};

TEST_P(BadPlugin, HarmsNobody) {
  const Case& one = GetParam();
  Outcome outcome;
  {
    const bad_plugin::Lie lie(one.lie);
    outcome = try_plugin();
  }
  const Status& failed = one.fails_at == Step::kRegister ? outcome.registered
                         : one.fails_at == Step::kLoad   ? outcome.loaded
                                                         : outcome.run;
  if (one.fails_at == Step::kNone) {
    EXPECT_TRUE(outcome.registered.ok()) << outcome.registered.to_string();
    EXPECT_TRUE(outcome.loaded.ok()) << outcome.loaded.to_string();
    EXPECT_TRUE(outcome.run.ok()) << outcome.run.to_string();
    EXPECT_THAT(outcome.values, ElementsAre(1, 0, 3));
  } else {
    EXPECT_FALSE(failed.ok());
    EXPECT_THAT(failed.message(), AllOf(HasSubstr("EP library \"bad\""), HasSubstr(one.says)));
    EXPECT_TRUE(one.fails_at == Step::kRegister || outcome.registered.ok()) << outcome.registered.to_string();
    EXPECT_TRUE(one.fails_at != Step::kRun || outcome.loaded.ok()) << outcome.loaded.to_string();
  }
  EXPECT_FALSE(plugin_is_loaded());
  expect_honest_plugin_works();
}

// A member that the stock host calls without looking.
INSTANTIATE_TEST_SUITE_P(
    NullMember, BadPlugin,
    ::testing::Values(Case{"null GetName", Step::kRegister, "OrtEpFactory::GetName is null"},
                      Case{"null GetVendor", Step::kRegister, "OrtEpFactory::GetVendor is null"},
                      Case{"null GetVersion", Step::kRegister, "OrtEpFactory::GetVersion is null"},
                      Case{"null GetSupportedDevices", Step::kRegister, "OrtEpFactory::GetSupportedDevices is null"},
                      Case{"null CreateEp", Step::kRegister, "OrtEpFactory::CreateEp is null"},
                      Case{"null ReleaseEp", Step::kRegister, "OrtEpFactory::ReleaseEp is null"},
                      Case{"null CreateDataTransfer", Step::kRegister, "OrtEpFactory::CreateDataTransfer is null"},
                      Case{"transfer without CopyTensors", Step::kRegister, "OrtDataTransferImpl::CopyTensors is null"},
                      Case{"null GetCapability", Step::kLoad, "OrtEp::GetCapability is null"},
                      Case{"null Compile", Step::kLoad, "OrtEp::Compile is null"},
                      Case{"null ReleaseNodeComputeInfos", Step::kLoad, "OrtEp::ReleaseNodeComputeInfos is null"},
                      Case{"null CreateState", Step::kLoad, "OrtNodeComputeInfo::CreateState is null"},
                      Case{"null Compute", Step::kLoad, "OrtNodeComputeInfo::Compute is null"},
                      Case{"null create function", Step::kLoad, "non-null OrtKernelCreateFunc"},
                      Case{"null Kernel.Compute", Step::kLoad, "OrtKernelImpl::Compute is null"}));

// Members that may be null.
INSTANTIATE_TEST_SUITE_P(OptionalMember, BadPlugin,
                         ::testing::Values(Case{"null Ep.GetName", Step::kNone}, Case{"null OnRunStart", Step::kNone},
                                           Case{"null OnRunEnd", Step::kNone},
                                           Case{"null IsConcurrentRunSupported", Step::kNone},
                                           Case{"null OnSessionInitializationEnd", Step::kNone},
                                           Case{"kernels", Step::kNone}));

// A pointer that is no function.
INSTANTIATE_TEST_SUITE_P(
    NoFunction, BadPlugin,
    ::testing::Values(Case{"data CreateEp", Step::kRegister, "CreateEp does not point to a function"},
                      Case{"data GetVersion", Step::kRegister, "GetVersion does not point to a function"},
                      Case{"data GetCapability", Step::kLoad, "GetCapability does not point to a function"},
                      Case{"data Compute", Step::kLoad, "Compute does not point to a function"}));

INSTANTIATE_TEST_SUITE_P(
    NullHandle, BadPlugin,
    ::testing::Values(
        Case{"null factory", Step::kRegister, "null OrtEpFactory"},
        Case{"no factory", Step::kRegister, "makes no factory"},
        Case{"too many factories", Step::kRegister, "9 factories"},
        Case{"null name", Step::kRegister, "OrtEpFactory::GetName gives null"},
        Case{"empty name", Step::kRegister, "empty name"}, Case{"bad vendor", Step::kRegister, "no memory"},
        Case{"null device", Step::kRegister, "says that it gives 1 devices and gives 0"},
        Case{"a device twice", Step::kRegister, "gives a device twice"},
        Case{"a device of nobody", Step::kRegister, "CreateEpDevice did not make"},
        Case{"too many devices", Step::kRegister, "13 devices"}, Case{"null ep", Step::kLoad, "null OrtEp"},
        Case{"bad ep", Step::kLoad, "no memory"}, Case{"null name of ep", Step::kLoad, "OrtEp::GetName gives null"},
        Case{"null compute info", Step::kLoad, "null OrtNodeComputeInfo"},
        Case{"bad compute info", Step::kLoad, "no memory"}, Case{"null kernel", Step::kLoad, "null OrtKernelImpl"}));

INSTANTIATE_TEST_SUITE_P(
    Throws, BadPlugin,
    ::testing::Values(Case{"throw CreateEpFactories", Step::kRegister, "a plugin's own exception"},
                      Case{"throw int CreateEpFactories", Step::kRegister, "no std::exception"},
                      Case{"throw GetName", Step::kRegister, "a plugin's own exception"},
                      Case{"throw GetSupportedDevices", Step::kRegister, "a plugin's own exception"},
                      Case{"throw CreateDataTransfer", Step::kRegister, "a plugin's own exception"},
                      Case{"throw CreateEp", Step::kLoad, "OrtEpFactory::CreateEp throws"},
                      Case{"throw IsConcurrentRunSupported", Step::kLoad, "a plugin's own exception"},
                      Case{"throw GetCapability", Step::kNone}, Case{"throw Compile", Step::kNone},
                      Case{"throw CreateState", Step::kLoad, "OrtNodeComputeInfo::CreateState throws"},
                      Case{"throw OnSessionInitializationEnd", Step::kLoad, "OnSessionInitializationEnd throws"},
                      Case{"throw OnRunStart", Step::kRun, "OrtEp::OnRunStart throws"},
                      Case{"throw Compute", Step::kRun, "OrtNodeComputeInfo::Compute throws"},
                      Case{"throw int Compute", Step::kRun, "no std::exception"},
                      Case{"throw Kernel.Compute", Step::kRun, "OrtKernelImpl::Compute throws"},
                      Case{"throw OnRunEnd", Step::kRun, "OrtEp::OnRunEnd throws"},
                      // Nobody to tell: the log gets it.
                      Case{"throw ReleaseState", Step::kNone}, Case{"throw ReleaseNodeComputeInfos", Step::kNone},
                      Case{"throw ReleaseEp", Step::kNone}, Case{"throw ReleaseEpFactory", Step::kNone}));

INSTANTIATE_TEST_SUITE_P(Fails, BadPlugin,
                         ::testing::Values(Case{"fail CreateEpFactories", Step::kRegister, "the plugin cannot"},
                                           Case{"fail GetSupportedDevices", Step::kRegister, "the plugin cannot"},
                                           Case{"fail CreateDataTransfer", Step::kRegister, "the plugin cannot"},
                                           Case{"fail CreateEp", Step::kLoad, "the plugin cannot"},
                                           Case{"fail IsConcurrentRunSupported", Step::kLoad, "the plugin cannot"},
                                           Case{"fail GetCapability", Step::kNone}, Case{"fail Compile", Step::kNone},
                                           Case{"fail CreateState", Step::kLoad, "the plugin cannot"},
                                           Case{"fail CreateKernel", Step::kLoad, "the plugin cannot"},
                                           Case{"fail OnSessionInitializationEnd", Step::kLoad, "the plugin cannot"},
                                           Case{"fail OnRunStart", Step::kRun, "the plugin cannot"},
                                           Case{"fail Compute", Step::kRun, "the plugin cannot"},
                                           Case{"fail OnRunEnd", Step::kRun, "the plugin cannot"}));

// The EP's own operators.
INSTANTIATE_TEST_SUITE_P(
    CustomOps, BadPlugin,
    ::testing::Values(Case{"null GetNumCustomOpDomains", Step::kNone}, Case{"null GetCustomOpDomains", Step::kNone},
                      Case{"data GetCustomOpDomains", Step::kLoad, "GetCustomOpDomains does not point to a function"},
                      Case{"throw GetNumCustomOpDomains", Step::kLoad, "GetNumCustomOpDomains throws"},
                      Case{"fail GetNumCustomOpDomains", Step::kLoad, "the plugin cannot"},
                      Case{"throw GetCustomOpDomains", Step::kLoad, "GetCustomOpDomains throws"},
                      Case{"fail GetCustomOpDomains", Step::kLoad, "the plugin cannot"},
                      Case{"too many domains", Step::kLoad, "1099511627776 domains"},
                      Case{"null domain", Step::kLoad, "gives a null OrtCustomOpDomain"},
                      Case{"domain of nobody", Step::kLoad, "CreateCustomOpDomain did not make"},
                      Case{"released domain", Step::kLoad, "CreateCustomOpDomain did not make, or that is released"},
                      Case{"an operator twice", Step::kLoad, "two operators \"Nothing\" that take the same inputs"},
                      Case{"null operator", Step::kRegister, "op"},
                      Case{"null name of an operator", Step::kRegister, "OrtCustomOp::GetName gives null"},
                      Case{"throw GetName of an operator", Step::kRegister, "OrtCustomOp::GetName throws"},
                      Case{"operator without KernelDestroy", Step::kRegister, "OrtCustomOp::KernelDestroy is null"}));

// A claim that cannot hold is dropped, and the CPU EP runs what is left.
INSTANTIATE_TEST_SUITE_P(Claims, BadPlugin,
                         ::testing::Values(Case{"claims a node twice in a region", Step::kNone},
                                           Case{"claims a node in two regions", Step::kNone},
                                           Case{"claims a cycle", Step::kNone}, Case{"claims nothing", Step::kNone},
                                           Case{"single node without a registry", Step::kLoad, "no kernel registry"}));

// A struct's version says which members may be read, and nothing else does.
INSTANTIATE_TEST_SUITE_P(Version, BadPlugin,
                         ::testing::Values(Case{"factory of version 0", Step::kRegister, "needs version 22"},
                                           Case{"factory of version 22", Step::kNone},
                                           Case{"factory of version 99", Step::kNone},
                                           Case{"ep of version 0", Step::kLoad, "needs version 23"},
                                           Case{"ep of version 22", Step::kLoad, "needs version 23"},
                                           Case{"ep of version 99", Step::kNone},
                                           Case{"garbage behind version 24", Step::kNone},
                                           Case{"compute info of version 0", Step::kLoad, "needs version 23"}));

// docs/reference/plugin-host.md: the order of the host's calls.
TEST(PluginHost, CallsComeInTheOrderOfTheReference) {
  const bad_plugin::Calls recorded;
  expect_honest_plugin_works();
  std::vector<std::string> calls = recorded.names();
  const std::vector<std::string> registering = {"CreateEpFactories", "GetSupportedDevices", "GetName", "GetVendor",
                                                "GetVersion"};
  ASSERT_GE(calls.size(), registering.size());
  EXPECT_THAT(std::vector<std::string>(calls.begin(), calls.begin() + 5), ElementsAreArray(registering));
  // Names may be asked for again at any time.
  std::erase_if(calls, [](const std::string& call) {
    return call == "GetName" || call == "GetVendor" || call == "GetVersion" || call == "Ep.GetName";
  });
  EXPECT_THAT(calls, ElementsAreArray({"CreateEpFactories",
                                       "GetSupportedDevices",
                                       "CreateDataTransfer",
                                       "GetNumCustomOpDomains",
                                       "GetCustomOpDomains",
                                       "CreateEp",
                                       "IsConcurrentRunSupported",
                                       "CreateDataTransfer",
                                       "GetCapability",
                                       "Compile",
                                       "CreateState",
                                       "CreateState",
                                       "OnSessionInitializationEnd",
                                       "OnRunStart",
                                       "Compute",
                                       "Compute",
                                       "OnRunEnd",
                                       "ReleaseState",
                                       "ReleaseState",
                                       "ReleaseNodeComputeInfos",
                                       "ReleaseEp",
                                       "ReleaseEpFactory"}));
}

TEST(PluginHost, ALibraryStaysLoadedAsLongAsASessionUsesIt) {
  ASSERT_TRUE(register_ep_library("bad", kPlugin).ok());
  auto session = load_model(kWithEp);
  ASSERT_TRUE(session.ok()) << session.status().to_string();
  ASSERT_TRUE(unregister_ep_library("bad").ok());
  EXPECT_TRUE(plugin_is_loaded());
  const std::pair<std::string, Tensor> inputs[] = {{"x", api_testing::floats({3}, {-1, 2, -3})}};
  const auto outputs = (*session)->run(inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_THAT(api_testing::values_of((*outputs)[0]), ElementsAre(1, 0, 3));
  session->reset();
  EXPECT_FALSE(plugin_is_loaded());
}

TEST(PluginHost, ANameIsRegisteredOnce) {
  ASSERT_TRUE(register_ep_library("bad", kPlugin).ok());
  EXPECT_THAT(register_ep_library("bad", kPlugin), has_status(StatusCode::kInvalidArgument, HasSubstr("\"bad\"")));
  // The same file under another name is a second library.
  EXPECT_TRUE(register_ep_library("bad2", kPlugin).ok());
  EXPECT_EQ(ep_devices().size(), 3u);
  EXPECT_TRUE(unregister_ep_library("bad").ok());
  EXPECT_TRUE(unregister_ep_library("bad2").ok());
  EXPECT_THAT(unregister_ep_library("bad"), has_status(StatusCode::kNotFound, HasSubstr("\"bad\"")));
  EXPECT_FALSE(plugin_is_loaded());
}

TEST(PluginHost, DevicesShowWhatTheEpOffers) {
  ASSERT_TRUE(register_ep_library("bad", kPlugin).ok());
  const std::vector<EpDevice> devices = ep_devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].ep_name, "CPUExecutionProvider");
  EXPECT_EQ(devices[1].ep_name, "BadEp");
  EXPECT_EQ(devices[1].ep_vendor, "Tenon's tests");
  EXPECT_EQ(devices[1].ep_version, "1.2.3");
  EXPECT_EQ(devices[1].library, "bad");
  EXPECT_EQ(devices[1].metadata.at("color"), "grey");
  EXPECT_EQ(devices[1].metadata.at("version"), "1.2.3");
  EXPECT_EQ(devices[1].metadata.at("library_path"), kPlugin);
  EXPECT_EQ(devices[1].options.at("speed"), "slow");
  EXPECT_TRUE(unregister_ep_library("bad").ok());
}

TEST(PluginHost, WhatIsNoEpLibraryIsRefusedWithItsPath) {
  EXPECT_THAT(register_ep_library("bad", "/nowhere/libx.so"), has_status(StatusCode::kNotFound, HasSubstr("/nowhere")));
  EXPECT_THAT(register_ep_library("bad", "libnowhere.so"),
              has_status(StatusCode::kNotFound, HasSubstr("libnowhere.so")));
  EXPECT_THAT(register_ep_library("bad", "/proc/self/status"),
              has_status(StatusCode::kUnsupported, HasSubstr("cannot be loaded")));
  EXPECT_EQ(register_ep_library("bad", "libm.so.6").code(), StatusCode::kNotFound);
  EXPECT_THAT(register_ep_library("", kPlugin), has_status(StatusCode::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(register_ep_library("bad", ""), has_status(StatusCode::kInvalidArgument, HasSubstr("empty")));
}

TEST(PluginHost, ARelativePathIsAlsoLookedForInTheWorkingFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  const std::filesystem::path plugin(kPlugin);
  std::filesystem::current_path(plugin.parent_path());
  EXPECT_TRUE(register_ep_library("bad", plugin.filename()).ok());
  std::filesystem::current_path(before);
  EXPECT_TRUE(unregister_ep_library("bad").ok());
}

}  // namespace
}  // namespace tenon
