#include "graph/external_initializers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

class OutputFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / "tenon_output_files";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::string content(const char* name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  int files() const { return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {})); }
  static std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

  std::filesystem::path folder_;
};

TEST_F(OutputFiles, AppearWhenTheyAreWhole) {
  std::ofstream(folder_ / "model") << "before";
  {
    Result<OutputFile> file = OutputFile::create(path("model"));
    ASSERT_THAT(file, is_ok());
    ASSERT_THAT(file->write(bytes("a part")), is_ok());
    EXPECT_EQ(content("model"), "before");
  }
  EXPECT_EQ(content("model"), "before");
  EXPECT_EQ(files(), 1);
  Result<OutputFile> file = OutputFile::create(path("model"));
  ASSERT_THAT(file, is_ok());
  ASSERT_THAT(file->write(bytes("all")), is_ok());
  ASSERT_THAT(file->commit(), is_ok());
  EXPECT_EQ(content("model"), "all");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFiles, AreWrittenWhereLinksLead) {
  std::ofstream(folder_ / "real") << "before";
  std::filesystem::create_symlink("real", folder_ / "link");
  Result<OutputFile> file = OutputFile::create(path("link"));
  ASSERT_THAT(file, is_ok());
  ASSERT_THAT(file->write(bytes("after")), is_ok());
  ASSERT_THAT(file->commit(), is_ok());
  EXPECT_EQ(content("real"), "after");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
}

TEST_F(OutputFiles, SayWhyTheyCannotBeWritten) {
  EXPECT_THAT(OutputFile::create(path("nowhere/model")),
              has_status(StatusCode::kInvalidArgument, HasSubstr("No such file or directory")));
  Result<OutputFile> full = OutputFile::create("/dev/full");
  ASSERT_THAT(full, is_ok());
  Status status = full->write(bytes(std::string(1 << 20, 'x')));
  if (status.ok()) status = full->commit();
  EXPECT_THAT(status, has_status(StatusCode::kInvalidArgument, HasSubstr("/dev/full")));
}

ConstantRef zeros(DataType type, int64_t count) {
  std::byte* data = nullptr;
  return *make_constant(type, Shape{count}, &data);
}
// Three elements are 12 bytes.
ConstantRef floats(int64_t count) { return zeros(DataType::kFloat, count); }

TEST_F(OutputFiles, HoldInitializersOneAfterTheOther) {
  const auto file = ExternalInitializersFile::create(
      {.location = "weights", .least_bytes = 12, .alignment = 64, .least_aligned_bytes = 20}, path("model"));
  ASSERT_THAT(file, is_ok());
  const auto place = [&](int64_t count) -> int64_t {
    const auto placed = (*file)->place(*floats(count));
    EXPECT_THAT(placed, is_ok());
    return *placed ? static_cast<int64_t>((*placed)->offset_bytes) : -1;
  };
  EXPECT_EQ(place(2), -1) << "it is smaller than the threshold";
  EXPECT_EQ(place(3), 0);
  EXPECT_EQ(place(3), 12) << "it is too small to be aligned";
  EXPECT_EQ(place(5), 64);
  EXPECT_EQ(place(5), 128);
  ASSERT_THAT((*file)->commit(), is_ok());
  EXPECT_EQ(content("weights").size(), 148u);
}

TEST_F(OutputFiles, KeepElementsAligned) {
  ExternalInitializers initializers({.location = "w"}, [](std::span<const std::byte>) { return Status(); });
  EXPECT_EQ((*initializers.place(*zeros(DataType::kInt8, 3)))->offset_bytes, 0u);
  EXPECT_EQ((*initializers.place(*zeros(DataType::kDouble, 1)))->offset_bytes, 8u);
  EXPECT_FALSE(initializers.place(*make_string_constant(Shape{1}, {"text"}))->has_value());
}

TEST_F(OutputFiles, HoldNoInitializersOutsideOfTheModelsFolder) {
  for (const char* location : {"/weights", "../weights", "a/../../weights", ""}) {
    EXPECT_THAT(ExternalInitializersFile::create({.location = location}, path("model")),
                has_status(StatusCode::kInvalidArgument, HasSubstr("no path within")));
  }
  const auto empty = ExternalInitializersFile::create({.location = "weights"}, path("model"));
  ASSERT_THAT(empty, is_ok());
  ASSERT_THAT((*empty)->commit(), is_ok());
  EXPECT_EQ(files(), 0);
}

TEST_F(OutputFiles, RefuseAnAlignmentThatFillsDisks) {
  ExternalInitializers initializers({.location = "w", .alignment = size_t{1} << 40},
                                    [](std::span<const std::byte>) { return Status(); });
  ASSERT_THAT(initializers.place(*floats(3)), is_ok());
  EXPECT_THAT(initializers.place(*floats(3)), has_status(StatusCode::kInvalidArgument, HasSubstr("aligned")));
}

}  // namespace
}  // namespace tenon
