#include "base/config_keys.h"

#include <tenon/close_names.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/edit_distance.h"
#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseFlag, TakesEightSpellingsInAnyCase) {
  for (const char* yes : {"1", "true", "True", "TRUE", "yes", "Yes", "on", "ON"})
    EXPECT_EQ(parse_flag(yes), true) << yes;
  for (const char* no : {"0", "false", "False", "no", "NO", "off", "Off"}) EXPECT_EQ(parse_flag(no), false) << no;
  for (const char* none : {"", "2", "t", "y", "truee", " 1", "1 ", "enabled", "-1", "01"})
    EXPECT_EQ(parse_flag(none), std::nullopt) << none;
}

TEST(ConfigEntries, KnownOnesWithGoodValuesAreTaken) {
  EXPECT_THAT(check_config_entry(ConfigScope::kSession, "tenon.disallow_copies", "yes"), is_ok());
  EXPECT_THAT(check_config_entry(ConfigScope::kSession, "tenon.winograd", "Off"), is_ok());
  EXPECT_THAT(check_config_entry(ConfigScope::kRun, "tenon.disallow_copies", "1"), is_ok());
  EXPECT_THAT(check_config_entry(ConfigScope::kRun, "tenon.timeout_ms", "250"), is_ok());
  // A host clears an entry by an empty value.
  EXPECT_THAT(check_config_entry(ConfigScope::kRun, "tenon.timeout_ms", ""), is_ok());
}

TEST(ConfigEntries, EntriesOfOtherLibrariesAreTheirOwn) {
  for (const char* name : {"session.disable_prepacking", "ep.cuda.device_id", "ep.context_enable", "gpu_graph_id",
                           "optimization.minimal_build_optimizations", "memory.enable_memory_arena_shrinkage", "x",
                           "model_path", "timeout_ms", "run_waits"}) {
    for (ConfigScope scope : {ConfigScope::kSession, ConfigScope::kRun, ConfigScope::kEnv})
      EXPECT_THAT(check_config_entry(scope, name, "anything"), is_ok()) << name;
  }
}

TEST(ConfigEntries, ABadValueIsNamedWithWhatIsAccepted) {
  EXPECT_THAT(check_config_entry(ConfigScope::kSession, "tenon.disallow_copies", "enabled"),
              has_status(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"tenon.disallow_copies\" is \"enabled\""), HasSubstr("0, 1, false, true"))));
  for (const char* value : {"-1", "soon", "1.5", "99999999999999999999"})
    EXPECT_THAT(check_config_entry(ConfigScope::kRun, "tenon.timeout_ms", value),
                has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("tenon.timeout_ms"), HasSubstr(value))));
}

TEST(ConfigEntries, ASlipIsAnErrorThatNamesWhatIsClose) {
  for (const char* name :
       {"tenon.disalow_copies", "tenon.Disallow_Copies", "Tenon.disallow_copies", "tenno.disallow_copies",
        "tenon_disallow_copies", "disallow_copies", "tenon.disallow_copy", "tenon.disallow"}) {
    EXPECT_THAT(check_config_entry(ConfigScope::kSession, name, "1"),
                has_status(StatusCode::kInvalidArgument,
                           AllOf(HasSubstr(name), HasSubstr("did you mean \"tenon.disallow_copies\"?"))));
  }
  EXPECT_THAT(
      check_config_entry(ConfigScope::kSession, "tenon.frobnicate", "1"),
      has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("tenon.frobnicate"), HasSubstr("\"tenon.winograd\""))));
}

TEST(ConfigEntries, AnEntryOfAnotherScopeSaysWhereItBelongs) {
  EXPECT_THAT(check_config_entry(ConfigScope::kRun, "tenon.winograd", "1"),
              has_status(StatusCode::kInvalidArgument, HasSubstr("is a session config entry, and not one of a run")));
  EXPECT_THAT(check_config_entry(ConfigScope::kSession, "tenon.timeout_ms", "1"),
              has_status(StatusCode::kInvalidArgument, HasSubstr("is a run config entry, and not one of a session")));
  EXPECT_THAT(check_config_entry(ConfigScope::kEnv, "tenon.winograd", "1"),
              has_status(StatusCode::kInvalidArgument, HasSubstr("not one of an env")));
}

TEST(ConfigEntries, DefaultsAreValuesOfTheirKind) {
  for (const ConfigKey& key : config_keys())
    EXPECT_THAT(check_config_entry(key.scope, key.name, key.kind == ConfigKind::kFlag ? key.default_value : ""),
                is_ok());
}

// The page and the table are one list: neither has an entry that the other lacks, nor another default.
TEST(ConfigEntries, ThePageListsExactlyTheTable) {
  std::ifstream file(TENON_SOURCE_FOLDER "/docs/reference/options.md");
  std::set<std::string> listed;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| session | `tenon.") || line.starts_with("| run | `tenon.") ||
        line.starts_with("| env | `tenon."))
      listed.insert(line);
  std::set<std::string> expected;
  for (const ConfigKey& key : config_keys()) {
    const char* kind = key.kind == ConfigKind::kFlag ? "flag" : key.kind == ConfigKind::kInteger ? "number" : "text";
    const char* scope = key.scope == ConfigScope::kSession ? "session" : key.scope == ConfigScope::kRun ? "run" : "env";
    expected.insert(format("| {} | `{}` | {} | {} | {} |", scope, key.name, kind,
                           key.default_value.empty() ? "-" : key.default_value, key.help));
  }
  EXPECT_EQ(listed, expected);
}

TEST(EditDistance, CountsLettersThatAreAddedMissingReplacedOrSwapped) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("run", ""), 3u);
  EXPECT_EQ(edit_distance("run", "RUN"), 0u);
  EXPECT_EQ(edit_distance("rnu", "run"), 1u);
  EXPECT_EQ(edit_distance("rums", "run"), 2u);
  EXPECT_EQ(edit_distance("height", "eight"), 1u);
  EXPECT_EQ(edit_distance("abcd", "badc"), 2u);
}

TEST(CloseNames, NearestFirstAtMostThree) {
  constexpr std::string_view kNames[] = {"alpha", "alphas", "alpha_beta", "alphabet", "gamma"};
  EXPECT_THAT(close_names("alpha", kNames), ElementsAre("alpha", "alphas", "alphabet"));
  const std::vector<std::string_view> names = {"batch", "height", "width", "weight"};
  EXPECT_THAT(close_names("bath", names), ElementsAre("batch"));
  EXPECT_THAT(close_names("zzz", names), IsEmpty());
  EXPECT_EQ(did_you_mean("bath", names), "; did you mean \"batch\"?");
  EXPECT_EQ(did_you_mean("eight", names), "; did you mean \"height\" or \"weight\"?");
  EXPECT_EQ(did_you_mean("zzz", names), "");
}

}  // namespace
}  // namespace tenon
