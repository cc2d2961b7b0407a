#include "ep/cuda/compute/kernel_library.h"

#include <gmock/gmock.h>

namespace tenon::cuda {
namespace {

using ::testing::HasSubstr;

// The limits that CUDA documents for every device: a launch beyond them says so before the driver refuses it.
TEST(CheckLaunch, GridsBeyondTheLimitsAreRefused) {
  EXPECT_TRUE(check_launch({.grid_x = 2147483647, .grid_y = 65535, .grid_z = 65535, .block_x = 1024}).ok());
  for (const LaunchShape& shape :
       {LaunchShape{.grid_x = 2147483648U}, LaunchShape{.grid_y = 65536}, LaunchShape{.grid_z = 70000}}) {
    const Status status = check_launch(shape);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.to_string(), HasSubstr("2147483647x65535x65535"));
  }
  EXPECT_EQ(check_launch({.block_x = 512, .block_y = 4}).code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace tenon::cuda
