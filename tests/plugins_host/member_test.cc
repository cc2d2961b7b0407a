// Reading the structs of plugins: members that the host reads, and members that it must not read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/testing.h"
#include "ep/host/plugin_member.h"

namespace tenon::abi {
namespace {

using ::testing::HasSubstr;

// A page that can be read, and one behind it that cannot.
class PageEnd {
 public:
  PageEnd() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    base_ = static_cast<std::byte*>(mmap(nullptr, 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_, page_, PROT_READ | PROT_WRITE);
  }
  ~PageEnd() { munmap(base_, 2 * page_); }
  void* last(size_t size_bytes) { return base_ + page_ - size_bytes; }

 private:
  size_t page_;
  std::byte* base_;
};

const char* ORT_API_CALL name_of(const OrtEpFactory*) { return "x"; }

// A factory of version 22 ends after ReleaseEp: the host must not read a byte behind it.
TEST(PluginMember, NothingPastTheVersionIsRead) {
  PageEnd end;
  auto* factory = static_cast<OrtEpFactory*>(end.last(offsetof(OrtEpFactory, GetVendorId)));
  factory->ort_version_supported = 22;
  factory->GetName = &name_of;
  EXPECT_TRUE(TENON_MEMBER(factory, OrtEpFactory, GetName));
  const auto newer = TENON_MEMBER(factory, OrtEpFactory, GetVersion);
  EXPECT_TRUE(newer.too_new());
  EXPECT_THAT(newer.check("EP library \"x\""),
              has_status(StatusCode::kUnsupported, HasSubstr("OrtEpFactory::GetVersion needs version 23")));
}

// The same struct that says version 99: its missing members are in memory that cannot be read.
TEST(PluginMember, AStructShorterThanItsVersionIsFound) {
  PageEnd end;
  auto* factory = static_cast<OrtEpFactory*>(end.last(offsetof(OrtEpFactory, GetVendorId)));
  factory->ort_version_supported = 99;
  const auto missing = TENON_MEMBER(factory, OrtEpFactory, GetVersion);
  EXPECT_FALSE(missing);
  EXPECT_THAT(missing.check("EP library \"x\""),
              has_status(StatusCode::kDeviceError, HasSubstr("declares version 99, and may be shorter")));
}

TEST(PluginMember, TextIsReadToItsEndOnly) {
  PageEnd end;
  auto* text = static_cast<char*>(end.last(4));
  std::memcpy(text, "abc", 4);
  const auto read = checked_text("EP library \"x\"", "GetName", text);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, "abc");
  std::memcpy(text, "abcd", 4);
  EXPECT_THAT(checked_text("EP library \"x\"", "GetName", text),
              has_status(StatusCode::kDeviceError, HasSubstr("no memory")));
}

TEST(PluginMember, CodeIsToldFromData) {
  static int data = 0;
  EXPECT_TRUE(is_code(reinterpret_cast<const void*>(&name_of)));
  EXPECT_FALSE(is_code(&data));
  EXPECT_FALSE(is_code(nullptr));
  EXPECT_TRUE(is_readable(&data, sizeof data));
  EXPECT_FALSE(is_readable(nullptr, 1));
}

// OrtKernelImpl begins with two numbers: the slot of a member is not its offset.
TEST(PluginMember, KernelMembersAreReadByOffset) {
  OrtKernelImpl kernel = {};
  kernel.ort_version_supported = 24;
  kernel.flags = 7;
  kernel.Compute = [](OrtKernelImpl*, OrtKernelContext*) -> OrtStatus* { return nullptr; };
  EXPECT_EQ(TENON_MEMBER(&kernel, OrtKernelImpl, Compute).function, kernel.Compute);
  EXPECT_TRUE(TENON_MEMBER(&kernel, OrtKernelImpl, Release).absent());
}

}  // namespace
}  // namespace tenon::abi
