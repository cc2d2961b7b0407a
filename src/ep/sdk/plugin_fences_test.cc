// The fences of a run as an EP reads them: handles in a host that has EpHostApi, text in others.
#include "ep/sdk/plugin_fences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"

// The host's own type, as the test's host makes it.
struct OrtStatus {
  OrtErrorCode code;
  std::string message;
};

namespace tenon::plugin {
namespace {

using testing::HasSubstr;

int object;
const auto* const kOptions = reinterpret_cast<const OrtRunOptions*>(&object);

// What the host answers.
const char* waits_text = nullptr;
const char* signals_text = nullptr;
const RunFences* given = nullptr;
const char* refusal = nullptr;
EpHostApi table;
const EpHostApi* own_table = nullptr;

OrtApi host_table() {
  OrtApi api{};
  api.GetEpApi = []() noexcept -> const OrtEpApi* {
    static const OrtEpApi ep{};
    return &ep;
  };
  api.GetModelEditorApi = []() noexcept -> const OrtModelEditorApi* { return nullptr; };
  api.GetErrorCode = [](const OrtStatus* status) noexcept { return status->code; };
  api.GetErrorMessage = [](const OrtStatus* status) noexcept -> const char* { return status->message.c_str(); };
  api.ReleaseStatus = [](OrtStatus* status) noexcept { delete status; };
  api.GetRunConfigEntry = [](const OrtRunOptions*, const char* key) noexcept -> const char* {
    return key == std::string_view(kRunWaitsKey)     ? waits_text
           : key == std::string_view(kRunSignalsKey) ? signals_text
                                                     : "";
  };
  api.GetExperimentalFunction = [](const char* name) noexcept -> OrtExperimentalFnPtr {
    const GetEpHostApiFn get = [](uint32_t version) noexcept {
      return version == kEpHostApiVersion ? own_table : nullptr;
    };
    return name == std::string_view(kGetEpHostApi) ? reinterpret_cast<OrtExperimentalFnPtr>(get) : nullptr;
  };
  return api;
}

class PluginFences : public testing::Test {
 protected:
  void SetUp() override {
    waits_text = signals_text = refusal = nullptr;
    given = nullptr;
    own_table = nullptr;
    table = {.size_bytes = sizeof(EpHostApi), .version = kEpHostApiVersion};
    table.RunOptions_GetFences = [](const OrtRunOptions*, size_t size_bytes,
                                    const RunFences** out) noexcept -> OrtStatus* {
      EXPECT_EQ(size_bytes, sizeof(RunFences));
      if (refusal != nullptr) return new OrtStatus{ORT_INVALID_ARGUMENT, refusal};
      *out = given;
      return nullptr;
    };
  }
  static HostApi host() {
    static const OrtApi api = host_table();
    static const OrtApiBase base = {.GetApi = [](uint32_t) noexcept -> const OrtApi* { return &api; },
                                    .GetVersionString = []() noexcept -> const char* { return "1.32.0"; }};
    return HostApi::connect(&base).value();
  }
};

OrtExternalSemaphoreHandle* handle(uintptr_t number) { return reinterpret_cast<OrtExternalSemaphoreHandle*>(number); }

TEST_F(PluginFences, AStockHostPassesTheProgramsText) {
  waits_text = "0x10:3, 32:4";
  signals_text = "0x10:5";
  const auto fences = FencesOfRun::read(host(), kOptions);
  ASSERT_THAT(fences, is_ok());
  ASSERT_EQ(fences->waits.size(), 2u);
  EXPECT_EQ(fences->waits[1].semaphore, handle(32));
  EXPECT_EQ(fences->waits[1].value, 4u);
  ASSERT_EQ(fences->signals.size(), 1u);
  EXPECT_EQ(fences->signals[0].value, 5u);
  EXPECT_EQ(fences->calls, 0u);
  signals_text = "garbage";
  EXPECT_THAT(FencesOfRun::read(host(), kOptions), has_status(StatusCode::kInvalidArgument, HasSubstr(kRunSignalsKey)));
}

TEST_F(PluginFences, WithoutOptionsOrEntriesThereAreNone) {
  EXPECT_TRUE(FencesOfRun::read(host(), nullptr).value().empty());
  EXPECT_TRUE(FencesOfRun::read(host(), kOptions).value().empty());
  own_table = &table;
  EXPECT_TRUE(FencesOfRun::read(host(), nullptr).value().empty());
  EXPECT_TRUE(FencesOfRun::read(host(), kOptions).value().empty());
}

// The program's text names handles of the host's, which mean nothing to the EP.
TEST_F(PluginFences, TenonsHostPassesHandlesAndNoText) {
  own_table = &table;
  waits_text = signals_text = "0x10:3";
  EXPECT_TRUE(FencesOfRun::read(host(), kOptions).value().empty());
  const RunFence waits[] = {{handle(64), 7}}, signals[] = {{handle(64), 8}, {handle(96), 1}};
  const RunFences fences{.size_bytes = sizeof(RunFences),
                         .calls = 1,
                         .waits = waits,
                         .signals = signals,
                         .wait_count = 1,
                         .signal_count = 2};
  given = &fences;
  const auto read = FencesOfRun::read(host(), kOptions);
  ASSERT_THAT(read, is_ok());
  EXPECT_EQ(read->waits.data(), waits);
  EXPECT_EQ(read->waits.size(), 1u);
  EXPECT_EQ(read->signals.data(), signals);
  EXPECT_EQ(read->signals.size(), 2u);
  EXPECT_EQ(read->calls, 1u);
}

TEST_F(PluginFences, MoreThanAnEpTakesIsRefusedWithBothNumbers) {
  own_table = &table;
  const std::vector<RunFence> many(kMostRunFences + 1, RunFence{handle(64), 1});
  const RunFences fences{.size_bytes = sizeof(RunFences),
                         .calls = 1,
                         .waits = many.data(),
                         .signals = many.data(),
                         .wait_count = 1,
                         .signal_count = many.size()};
  given = &fences;
  EXPECT_THAT(FencesOfRun::read(host(), kOptions),
              has_status(StatusCode::kInvalidArgument, HasSubstr("1 waits and 65 signals")));
}

TEST_F(PluginFences, TheHostsRefusalIsPassedOn) {
  own_table = &table;
  refusal = "no";
  EXPECT_THAT(FencesOfRun::read(host(), kOptions),
              has_status(StatusCode::kInvalidArgument, HasSubstr("no - from the host's RunOptions_GetFences")));
}

// Of an older Tenon, whose functions end before those that are called here.
TEST_F(PluginFences, ATableThatIsTooShortIsNotCalled) {
  table.size_bytes = sizeof(EpHostApi) - 1;
  own_table = &table;
  EXPECT_EQ(host().tenon(), nullptr);
  table.size_bytes = sizeof(EpHostApi);
  EXPECT_EQ(host().tenon(), &table);
}

}  // namespace
}  // namespace tenon::plugin
