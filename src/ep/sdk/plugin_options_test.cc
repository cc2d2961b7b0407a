#include "ep/sdk/plugin_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::plugin {
namespace {

using testing::HasSubstr;

constexpr OptionRow kRows[] = {
    {"user_compute_stream", OptionKind::kAddress, "0"},
    {"has_user_compute_stream", OptionKind::kFlag, "0"},
    {"device_id", OptionKind::kInteger, "0", "", 0, 15},
    {"mode", OptionKind::kChoice, "compile", "compile|kernels"},
};
constexpr std::string_view kPrefixes[] = {"ep.cudaexecutionprovider.", "ep.cuda."};

using Entries = std::vector<std::pair<std::string, std::string>>;

Result<OptionValues> parse(const Entries& entries) { return OptionValues::parse(kRows, kPrefixes, entries); }

std::string message_of(const Entries& entries) {
  const auto values = parse(entries);
  EXPECT_FALSE(values.ok());
  EXPECT_EQ(values.status().code(), StatusCode::kInvalidArgument);
  return values.status().message();
}

TEST(OptionValues, DefaultsHoldWhereNothingIsGiven) {
  const auto values = parse({{"session.intra_op.allow_spinning", "0"}, {"ep.other.mode", "x"}});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(values->text("mode"), "compile");
  EXPECT_FALSE(values->flag("has_user_compute_stream"));
  EXPECT_FALSE(values->given("mode"));
}

// S4.5: bare (the host adds the EP's prefix) and with the short prefix, also both at once.
TEST(OptionValues, KeysAreTakenWithEveryPrefix) {
  for (const char* key : {"ep.cudaexecutionprovider.device_id", "ep.cuda.device_id", "EP.CUDA.Device_Id",
                          "ep.cudaexecutionprovider.ep.cuda.device_id"}) {
    const auto values = parse({{key, "3"}});
    ASSERT_TRUE(values.ok()) << key << ": " << values.status().message();
    EXPECT_EQ(values->integer("device_id"), 3) << key;
    EXPECT_TRUE(values->given("device_id"));
  }
}

TEST(OptionValues, AddressesAreDecimalOrHex) {
  EXPECT_EQ(parse({{"ep.cuda.user_compute_stream", "4096"}})->address("user_compute_stream"), 4096u);
  EXPECT_EQ(parse({{"ep.cuda.user_compute_stream", "0x7fffdeadbeef"}})->address("user_compute_stream"),
            0x7fffdeadbeefu);
  for (const char* text : {"", "0x", "stream", "-1", "1 ", "0x1g"})
    EXPECT_THAT(message_of({{"ep.cuda.user_compute_stream", text}}), HasSubstr("\"user_compute_stream\"")) << text;
}

TEST(OptionValues, ABadValueIsNamedWithWhatTheOptionTakes) {
  EXPECT_THAT(message_of({{"ep.cuda.device_id", "16"}}),
              HasSubstr("\"device_id\" is \"16\"; it takes a whole number from 0 to 15"));
  EXPECT_THAT(message_of({{"ep.cuda.device_id", "9999999999999999999999"}}), HasSubstr("0 to 15"));
  EXPECT_THAT(message_of({{"ep.cuda.mode", "kernel"}}), HasSubstr("it takes one of compile|kernels"));
  EXPECT_THAT(message_of({{"ep.cuda.has_user_compute_stream", "maybe"}}),
              HasSubstr("0, 1, false, true, no, yes, off or on"));
}

TEST(OptionValues, AnUnknownOptionListsTheCloseOnes) {
  EXPECT_THAT(message_of({{"ep.cuda.user_compute_steam", "1"}}), HasSubstr("close ones are \"user_compute_stream\""));
  EXPECT_THAT(message_of({{"ep.cuda.compute_stream", "1"}}),
              HasSubstr("\"user_compute_stream\", \"has_user_compute_stream\""));
  EXPECT_THAT(message_of({{"ep.cuda.xyzzy", "1"}}), HasSubstr("the options are \"user_compute_stream\""));
}

}  // namespace
}  // namespace tenon::plugin
