// Packed weights that processes share: one copy of each, whatever goes wrong with the files, and nothing left behind.
#include "runtime/packed_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/fault.h"
#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr size_t kBytes = 20'000;
const ContentHash kName = content_hash("weights"), kOther = content_hash("other weights");

class PackedFolderTest : public ::testing::Test {
 protected:
  PackedFolderTest() {
    char name[] = "/tmp/tenon_packed_XXXXXX";
    root_ = ::mkdtemp(name);
    path_ = root_ + "/packed";
  }
  ~PackedFolderTest() override { fs::remove_all(root_); }

  std::shared_ptr<PackedFolder> open(size_t limit_bytes = 0) { return PackedFolder::open(path_, limit_bytes).value(); }
  // Counts its calls, and fills with 7.
  Result<std::shared_ptr<const std::byte>> get(PackedFolder& folder, const ContentHash& name = kName) {
    return folder.get(name, kBytes, [&](std::byte* to) {
      EXPECT_TRUE(std::all_of(to, to + kBytes, [](std::byte b) { return b == std::byte{0}; }));
      std::memset(to, 7, kBytes);
      ++packed_;
    });
  }
  std::string file(const ContentHash& name = kName) const { return path_ + "/" + name.to_string() + ".packed"; }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path_)) found.push_back(entry.path().filename());
    return found;
  }
  static ino_t inode_of(const std::string& path) {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
  }

  std::string root_, path_;
  int packed_ = 0;
};

TEST_F(PackedFolderTest, TwoThatOpenItReadOneFile) {
  const auto one = open(), two = open();
  const auto first = get(*one).value(), second = get(*two).value();
  EXPECT_EQ(packed_, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(std::memcmp(first.get(), second.get(), kBytes), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(second.get()) % 4096, 0u);
  // The page is one: what is written into the file both see.
  std::fstream(file(), std::ios::binary | std::ios::in | std::ios::out).seekp(4096).put(9);
  EXPECT_EQ(*first, std::byte{9});
  EXPECT_EQ(*second, std::byte{9});
}

TEST_F(PackedFolderTest, APackingGoesWithItsLastUserAndTheFolderWithTheLastSession) {
  auto one = open(), two = open();
  auto first = get(*one).value(), second = get(*two).value();
  first.reset();
  EXPECT_TRUE(fs::exists(file()));
  second.reset();
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_EQ(names(), std::vector<std::string>{"lock"});
  one.reset();
  EXPECT_TRUE(fs::exists(path_));
  two.reset();
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(PackedFolderTest, PackingsKeepTheFolderOpen) {
  auto folder = open();
  const auto packing = get(*folder).value();
  folder.reset();
  EXPECT_TRUE(fs::exists(file()));
  EXPECT_EQ(packing.get()[kBytes - 1], std::byte{7});
}

TEST_F(PackedFolderTest, FilesOfOthersStay) {
  auto folder = open();
  std::ofstream(path_ + "/notes.txt") << "mine";
  folder.reset();
  EXPECT_EQ(names(), std::vector<std::string>{"notes.txt"});
}

TEST_F(PackedFolderTest, ADamagedFileIsWrittenAgain) {
  const auto keeper = open();
  const std::string whole = [&] {
    const auto packing = get(*keeper).value();
    std::ifstream in(file(), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  ASSERT_EQ(whole.size(), 4096 + kBytes);
  std::string changed_header = whole, changed_data = whole;
  changed_header[20] ^= 1;
  changed_data[4096 + 777] ^= 1;
  int expected = packed_;
  for (const std::string& damaged : {std::string(), std::string("x"), whole.substr(0, whole.size() - 1), whole + "x",
                                     std::string(whole.size(), '\0'), changed_header, changed_data}) {
    std::ofstream(file(), std::ios::binary) << damaged;
    const auto packing = get(*keeper).value();
    EXPECT_EQ(packed_, ++expected) << damaged.size() << " bytes";
    EXPECT_EQ(packing.get()[777], std::byte{7});
  }
  std::ofstream(file(), std::ios::binary) << whole;
  const auto packing = get(*keeper).value();
  EXPECT_EQ(packed_, expected);
}

TEST_F(PackedFolderTest, ALinkInTheFilesPlaceIsNotFollowed) {
  const auto folder = open();
  const std::string target = root_ + "/target";
  std::ofstream(target) << "keep";
  fs::create_symlink(target, file());
  fs::create_symlink(target, path_ + "/" + kName.to_string() + ".part");
  EXPECT_THAT(get(*folder), has_status(StatusCode::kResourceExhausted, HasSubstr("open")));
  EXPECT_EQ(fs::file_size(target), 4u);
}

TEST_F(PackedFolderTest, ALimitEndsWhatIsWrittenAndNotWhatIsThere) {
  const auto one = open(30'000), two = open(30'000);
  const auto first = get(*one).value();
  EXPECT_THAT(get(*one, kOther),
              has_status(StatusCode::kResourceExhausted, HasSubstr("has 24096 bytes, and 24096 more")));
  EXPECT_THAT(get(*two), is_ok());
  EXPECT_EQ(packed_, 1);
}

TEST_F(PackedFolderTest, FoldersThatCannotBeUsedAreRefusedWithTheReason) {
  std::ofstream(root_ + "/file") << "";
  EXPECT_THAT(PackedFolder::open(root_ + "/file", 0), has_status(StatusCode::kResourceExhausted, HasSubstr("/file\"")));
  EXPECT_THAT(PackedFolder::open(root_ + "/none/packed", 0),
              has_status(StatusCode::kResourceExhausted, HasSubstr("mkdir")));
  fs::create_directory(path_);
  fs::permissions(path_, fs::perms::all);
  EXPECT_THAT(PackedFolder::open(path_, 0), has_status(StatusCode::kInvalidArgument, HasSubstr("others may write")));
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_exec);
  if (::geteuid() != 0) {
    EXPECT_THAT(PackedFolder::open(path_, 0), has_status(StatusCode::kResourceExhausted, HasSubstr("ermission")));
  }
}

// Runs `work` in a process of its own, and gives its exit code.
template <typename Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST_F(PackedFolderTest, WhatAKilledProcessLeavesIsUsedAndThenRemoved) {
  const auto keeper = open();
  EXPECT_NE(in_child([&] {
              const auto own = open();
              const auto packing = get(*own).value();
              std::ofstream(path_ + "/" + kOther.to_string() + ".part") << "half";
              ::raise(SIGKILL);
            }),
            0);
  ASSERT_TRUE(fs::exists(file()));
  const ino_t before = inode_of(file());
  {
    const auto packing = get(*keeper).value();
    EXPECT_EQ(packed_, 0);
    EXPECT_EQ(inode_of(file()), before);
    EXPECT_THAT(get(*keeper, kOther), is_ok());  // over the other one's half
    EXPECT_EQ(packed_, 1);
  }
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(PackedFolderTest, ALaterSessionRemovesWhatAllKilledOnesLeft) {
  EXPECT_NE(in_child([&] {
              const auto own = open();
              const auto packing = get(*own).value();
              ::raise(SIGKILL);
            }),
            0);
  ASSERT_TRUE(fs::exists(file()));
  open().reset();
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(PackedFolderTest, AForkNeitherReleasesNorTakesItsParentsLocks) {
  auto folder = open();
  auto packing = get(*folder).value();
  EXPECT_EQ(in_child([&] {
              EXPECT_EQ(packing.get()[0], std::byte{7});
              EXPECT_THAT(get(*folder, kOther), has_status(StatusCode::kUnsupported, HasSubstr("forked")));
              packing.reset();
              folder.reset();
            }),
            0);
  EXPECT_TRUE(fs::exists(file()));
  const auto other = open();
  EXPECT_THAT(get(*other), is_ok());
  EXPECT_EQ(packed_, 1);
}

TEST_F(PackedFolderTest, ProcessesThatStartAtOncePackEachWeightOnce) {
  const auto keeper = open();
  constexpr int kProcesses = 4, kWeights = 20;
  const std::string counts = root_ + "/counts";
  std::ofstream(counts).flush();
  std::vector<std::shared_ptr<const std::byte>> held;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto folder = open();
      for (int i = 0; i < kWeights; ++i) {
        const auto packing = folder->get(content_hash(std::to_string(i)), kBytes, [&](std::byte* to) {
          std::memset(to, i, kBytes);
          const int fd = ::open(counts.c_str(), O_WRONLY | O_APPEND);
          (void)!::write(fd, "x", 1);
          (void)::close(fd);
        });
        if (!packing.ok() || packing->get()[kBytes - 1] != static_cast<std::byte>(i)) ::_exit(1);
        held.push_back(*packing);
      }
      // Nobody leaves before all have come.
      const int fd = ::open(counts.c_str(), O_WRONLY | O_APPEND);
      (void)!::write(fd, "done", 4);
      for (int wait = 0; wait < 1000 && fs::file_size(counts) < kWeights + 4 * kProcesses; ++wait) ::usleep(10'000);
      ::_exit(fs::file_size(counts) == kWeights + 4 * kProcesses ? 0 : 2);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(PackedFolderTest, AFailureAtAnyStepLeavesNoFileBehind) {
  const auto folder = open();
  int failures = 0;
  for (int n = 1;; ++n) {
    FaultInjection fault(n);
    const auto packing = get(*folder);
    if (!fault.fired()) break;
    EXPECT_FALSE(packing.ok());
    EXPECT_EQ(names(), std::vector<std::string>{"lock"});
    ++failures;
  }
  EXPECT_EQ(failures, 2);
  EXPECT_EQ(packed_, 1);
}

}  // namespace
}  // namespace tenon
