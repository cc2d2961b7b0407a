// Model packages: what the effects of tests/abi cannot show. The format's rules and messages are compared there.
#include "runtime/model_package.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kAsset = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

class ModelPackageTest : public ::testing::Test {
 protected:
  ModelPackageTest() {
    char name[] = "/tmp/model_package_XXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~ModelPackageTest() override { EXPECT_EQ(std::system(format("rm -r '{}'", root_).c_str()), 0); }

  void folder(const std::string& name) { ASSERT_EQ(::mkdir(format("{}/{}", root_, name).c_str(), 0700), 0); }
  void file(const std::string& name, const std::string& text) { std::ofstream(format("{}/{}", root_, name)) << text; }
  Result<ModelPackage> open(const std::string& manifest) {
    file("manifest.json", manifest);
    return ModelPackage::open(root_);
  }

  std::string root_;
};

TEST_F(ModelPackageTest, PathsInSessionOptionsAreResolved) {
  folder("v");
  const ModelPackage package = *open(
      R"({"schema_version": "1.0", "components": {"c": {"variants": {"v": {"executor_info": {"ort": {
          "model_file": "m.onnx",
          "session_options": {"session.model_external_initializers_file_folder_path": "weights", "other": "weights"},
          "provider_options": {"device_id": "0"}}}}}}}})");
  const PackageVariant& variant = package.components()[0].variants[0];
  EXPECT_EQ(variant.model_file, root_ + "/v/m.onnx");
  ASSERT_EQ(variant.session_options.size(), 2u);
  EXPECT_EQ(variant.session_options[0].second, root_ + "/v/weights");
  EXPECT_EQ(variant.session_options[1].second, "weights");
  EXPECT_EQ(variant.provider_options[0].second, "0");
}

TEST_F(ModelPackageTest, APathOutsideIsRefusedWhereverItStands) {
  folder("v");
  ASSERT_EQ(::symlink("/etc", format("{}/v/link", root_).c_str()), 0);
  for (const char* path : {"../m.onnx", "/etc/hostname", "link/hostname", "a/../../m.onnx"}) {
    const std::string text = format(
        R"({{"schema_version": "1.0", "components": {{"c": {{"variants": {{"v": {{"executor_info": {{"ort": {{
            "model_file": "{}"}}}}}}}}}}}}}})",
        path);
    EXPECT_FALSE(open(text).ok()) << path;
    std::string installed = text;
    installed.insert(1, "\"layout\": \"installed\", ");
    EXPECT_THAT(open(installed), is_ok()) << path;
  }
}

TEST_F(ModelPackageTest, NeighboursOfTheFolderAreOutside) {
  folder("v");
  const std::string neighbour = root_ + "more";
  ASSERT_EQ(::mkdir(neighbour.c_str(), 0700), 0);
  ASSERT_EQ(::symlink(neighbour.c_str(), format("{}/v/link", root_).c_str()), 0);
  const ModelPackage package = *open(R"({"schema_version": "1.0", "components": {}})");
  EXPECT_THAT(package.resolve(nullptr, "v/link", true), has_status(StatusCode::kInvalidArgument, HasSubstr("escapes")));
  EXPECT_EQ(::rmdir(neighbour.c_str()), 0);
}

TEST_F(ModelPackageTest, AnAssetMayLieElsewhereWhereTheManifestSaysSo) {
  folder("assets");
  folder("assets/words");
  file("assets/words/list.txt", "a b");
  const ModelPackage package = *open(
      format(R"({{"schema_version": "1.0", "components": {{}}, "shared_assets": {{"{}": "assets/words"}}}})", kAsset));
  EXPECT_EQ(*package.resolve(nullptr, std::string(kAsset) + "/list.txt", true), root_ + "/assets/words/list.txt");
  EXPECT_EQ(*package.resolve(nullptr, std::string(kAsset), true), root_ + "/assets/words");
  ASSERT_EQ(::symlink("/etc", format("{}/assets/words/link", root_).c_str()), 0);
  EXPECT_FALSE(package.resolve(nullptr, std::string(kAsset) + "/link/hostname", true).ok());
}

TEST_F(ModelPackageTest, VersionsWithAnotherMinorNumberMayHaveFurtherMembers) {
  const auto opened = [this](const std::string& version) {
    return open(R"({"schema_version": ")" + version +
                R"(", "m": 1, "components": {"c": {"m": 1, "variants": {"v": {"m": 1}}}}})");
  };
  EXPECT_TRUE(opened("1.3").ok());
  for (const char* version : {"1.0", "1", "1.00"})
    EXPECT_THAT(opened(version), has_status(StatusCode::kInvalidArgument, HasSubstr("unknown field 'm'")));
}

TEST_F(ModelPackageTest, TextThatIsNoJsonIsNamedWithItsFileAndByte) {
  EXPECT_THAT(open("{\"schema_version\": }"), has_status(StatusCode::kInvalidArgument, HasSubstr("manifest.json")));
  EXPECT_THAT(open("{\"schema_version\": }"), has_status(StatusCode::kInvalidArgument, HasSubstr("byte 19")));
  EXPECT_THAT(open(R"({"schema_version": "1.0", "components": {"a": "x\u0000y"}})"),
              has_status(StatusCode::kInvalidArgument, HasSubstr("zero byte")));
}

}  // namespace
}  // namespace tenon
