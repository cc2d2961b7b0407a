// HOST_ACCESSIBLE memory between the CPU EP and the simulated one, in a host: its copies, and the devices that the host
// names for inputs and outputs. The same program runs in libtenon and in stock onnxruntime.
#include "hosts.h"

namespace tenon::hosts {
namespace {

using ::testing::ElementsAreArray;

// Abs is an operator that the simulated EP does not have.
const std::vector<std::string> kMixed = {"Abs", "Neg", "Abs", "Neg", "Abs"};

class MemorySpaces : public HostTest {
 protected:
  // Copies of the plugin in one run of `session`, from one tensor of the program to another.
  int64_t copies_of_a_run(OrtSession* session, const std::vector<std::string>& ops) {
    std::vector<float> from = numbers(), to(kCount);
    const auto x = wrap(from), y = wrap(to);
    OrtValue* out = y.get();
    EXPECT_THAT(run(session, x.get(), &out), is_ok());
    EXPECT_THAT(to, ElementsAreArray(chain_of(numbers(), ops)));
    const int64_t before = counter("total_copies");
    EXPECT_THAT(run(session, x.get(), &out), is_ok());
    return counter("total_copies") - before;
  }

  struct Described {
    std::string ep_name;
    const OrtEpDevice* device = nullptr;
    std::string memory;
  };
  template <typename GetInfo, typename GetDevice>
  Described describe(OrtSession* session, GetInfo get_info, GetDevice get_device) {
    const OrtMemoryInfo* info = nullptr;
    const OrtEpDevice* device = nullptr;
    EXPECT_THAT(ok(get_info(session, &info, 1), "SessionGetMemoryInfo"), is_ok());
    EXPECT_THAT(ok(get_device(session, &device, 1), "SessionGetEpDevice"), is_ok());
    Described result;
    if (info == nullptr || device == nullptr) {
      ADD_FAILURE() << "nothing is said of a value";
      return result;
    }
    OrtMemoryInfoDeviceType type{};
    api().MemoryInfoGetDeviceType(info, &type);
    result.memory = type == OrtMemoryInfoDeviceType_CPU                                     ? "cpu"
                    : api().MemoryInfoGetDeviceMemType(info) == OrtDeviceMemoryType_DEFAULT ? "gpu default"
                                                                                            : "gpu host accessible";
    result.ep_name = api().EpDevice_EpName(device);
    result.device = device;
    return result;
  }
  Described input_of(OrtSession* session) {
    return describe(session, api().SessionGetMemoryInfoForInputs, api().SessionGetEpDeviceForInputs);
  }
  Described output_of(OrtSession* session) {
    return describe(session, api().SessionGetMemoryInfoForOutputs, api().SessionGetEpDeviceForOutputs);
  }
};

// S3.3: in Tenon a tensor between the two EPs is allocated once, in memory that both address.
TEST_F(MemorySpaces, PartitionsThatShareMemoryCopyNothing) {
  use(kFullDevice);
  for (const char* mode : {"compile", "kernels"}) {
    const auto mixed = session(kMixed, {{"mode", mode}});
    ASSERT_NE(mixed, nullptr);
    const int64_t copies = copies_of_a_run(mixed.get(), kMixed);
    if (host().is_tenon()) {
      EXPECT_EQ(copies, 0) << mode;
    } else {
      EXPECT_EQ(copies, 4) << mode << ": stock hosts copy at each boundary of an EP with DEFAULT memory";
    }
  }
}

// The same model without that allocator: one copy for each boundary comes back.
TEST_F(MemorySpaces, WithoutSharedMemoryEachBoundaryIsACopy) {
  use(kNoHostAccessible);
  for (const char* mode : {"compile", "kernels"}) {
    const auto mixed = session(kMixed, {{"mode", mode}});
    ASSERT_NE(mixed, nullptr);
    EXPECT_EQ(copies_of_a_run(mixed.get(), kMixed), 4) << mode;
  }
}

// S3.2: what the program has in HOST_ACCESSIBLE memory is read and written there, by Run and by an IoBinding.
TEST_F(MemorySpaces, FeedsAndFetchesInHostAccessibleMemoryAreUsedInPlace) {
  use(kFullDevice);
  for (const auto& ops : {std::vector<std::string>{"Neg"}, std::vector<std::string>{"Abs"}, kMixed}) {
    const auto chain = session(ops);
    const auto x = allocate(OrtDeviceMemoryType_HOST_ACCESSIBLE), y = allocate(OrtDeviceMemoryType_HOST_ACCESSIBLE);
    ASSERT_TRUE(chain != nullptr && x != nullptr && y != nullptr);
    const std::vector<float> values = numbers();
    std::copy(values.begin(), values.end(), data(x.get()));
    OrtValue* out = y.get();
    ASSERT_THAT(run(chain.get(), x.get(), &out), is_ok());
    EXPECT_EQ(out, y.get());
    const int64_t before = counter("total_copies");
    std::fill_n(data(y.get()), kCount, 0.0f);
    ASSERT_THAT(run(chain.get(), x.get(), &out), is_ok());
    EXPECT_THAT(std::vector<float>(data(y.get()), data(y.get()) + kCount), ElementsAreArray(chain_of(values, ops)));
    // Stock hosts copy at the boundaries inside of the chain, and from HOST_ACCESSIBLE memory to DEFAULT.
    if (host().is_tenon()) {
      EXPECT_EQ(counter("total_copies"), before) << ops.size();
    }
  }
}

TEST_F(MemorySpaces, AnIoBindingMixesHostAccessibleAndDefaultMemory) {
  use(kFullDevice);
  const auto chain = session({"Neg"});
  const auto x = allocate(OrtDeviceMemoryType_HOST_ACCESSIBLE);
  const auto y = allocate(OrtDeviceMemoryType_DEFAULT);
  ASSERT_TRUE(chain != nullptr && x != nullptr && y != nullptr);
  const std::vector<float> values = numbers();
  std::copy(values.begin(), values.end(), data(x.get()));
  OrtIoBinding* raw = nullptr;
  ASSERT_THAT(ok(api().CreateIoBinding(chain.get(), &raw), "CreateIoBinding"), is_ok());
  const auto binding = host().own(raw, api().ReleaseIoBinding);
  ASSERT_THAT(ok(api().BindInput(raw, "x", x.get()), "BindInput"), is_ok());
  ASSERT_THAT(ok(api().BindOutput(raw, "y", y.get()), "BindOutput"), is_ok());
  ASSERT_THAT(ok(api().RunWithBinding(chain.get(), nullptr, raw), "RunWithBinding"), is_ok());
  const int64_t before = counter("total_copies");
  ASSERT_THAT(ok(api().RunWithBinding(chain.get(), nullptr, raw), "RunWithBinding"), is_ok());
  if (host().is_tenon()) {
    EXPECT_EQ(counter("total_copies"), before);
  }
  std::vector<float> result(kCount);
  const auto on_host = wrap(result);
  ASSERT_THAT(copy(y.get(), on_host.get()), is_ok());
  EXPECT_THAT(result, ElementsAreArray(chain_of(values, {"Neg"})));
}

// An output that is left to the host, on the device: BindOutputToDevice says where.
TEST_F(MemorySpaces, AnOutputIsMadeInTheMemoryThatTheBindingNames) {
  use(kFullDevice);
  const auto chain = session({"Neg"});
  ASSERT_NE(chain, nullptr);
  std::vector<float> values = numbers();
  const auto x = wrap(values);
  for (const auto kind : {OrtDeviceMemoryType_DEFAULT, OrtDeviceMemoryType_HOST_ACCESSIBLE}) {
    OrtIoBinding* raw = nullptr;
    ASSERT_THAT(ok(api().CreateIoBinding(chain.get(), &raw), "CreateIoBinding"), is_ok());
    const auto binding = host().own(raw, api().ReleaseIoBinding);
    ASSERT_THAT(ok(api().BindInput(raw, "x", x.get()), "BindInput"), is_ok());
    ASSERT_THAT(ok(api().BindOutputToDevice(raw, "y", api().EpDevice_MemoryInfo(host().device(), kind)), "BindOutput"),
                is_ok());
    ASSERT_THAT(ok(api().RunWithBinding(chain.get(), nullptr, raw), "RunWithBinding"), is_ok());
    OrtAllocator* allocator = nullptr;
    ASSERT_THAT(ok(api().GetAllocatorWithDefaultOptions(&allocator), "GetAllocator"), is_ok());
    OrtValue** outputs = nullptr;
    size_t count = 0;
    ASSERT_THAT(ok(api().GetBoundOutputValues(raw, allocator, &outputs, &count), "GetBoundOutputValues"), is_ok());
    ASSERT_EQ(count, 1u);
    const auto y = host().own(outputs[0], api().ReleaseValue);
    allocator->Free(allocator, outputs);
    const OrtMemoryInfo* info = nullptr;
    ASSERT_THAT(ok(api().GetTensorMemoryInfo(y.get(), &info), "GetTensorMemoryInfo"), is_ok());
    OrtMemoryInfoDeviceType type{};
    api().MemoryInfoGetDeviceType(info, &type);
    EXPECT_EQ(type, OrtMemoryInfoDeviceType_GPU);
    if (host().is_tenon()) {
      EXPECT_EQ(api().MemoryInfoGetDeviceMemType(info), kind);
    }
    std::vector<float> result(kCount);
    const auto on_host = wrap(result);
    ASSERT_THAT(copy(y.get(), on_host.get()), is_ok());
    EXPECT_THAT(result, ElementsAreArray(chain_of(values, {"Neg"})));
  }
}

// S1.8: where to allocate. Both hosts say the same.
TEST_F(MemorySpaces, ASessionSaysWhereItWantsInputsAndLeavesOutputs) {
  use(kFullDevice);
  const auto on_device = session({"Neg"});
  ASSERT_NE(on_device, nullptr);
  for (const Described& value : {input_of(on_device.get()), output_of(on_device.get())}) {
    EXPECT_EQ(value.ep_name, "TenonSimExecutionProvider");
    EXPECT_EQ(value.device, host().device());
    EXPECT_EQ(value.memory, "gpu default");
  }
  const auto on_cpu = session({"Abs", "Neg", "Abs"});
  ASSERT_NE(on_cpu, nullptr);
  for (const Described& value : {input_of(on_cpu.get()), output_of(on_cpu.get())}) {
    EXPECT_EQ(value.ep_name, "CPUExecutionProvider");
    EXPECT_EQ(value.memory, "cpu");
  }
  const auto both = session({"Neg", "Abs"});
  ASSERT_NE(both, nullptr);
  EXPECT_EQ(input_of(both.get()).memory, "gpu default");
  EXPECT_EQ(output_of(both.get()).memory, "cpu");
}

TEST_F(MemorySpaces, TheSecondDeviceIsNamedForItsOwnSessions) {
  use(kNoHostAccessible);
  if (!host().is_tenon()) GTEST_SKIP() << "stock hosts name the EP's first device";
  const auto on_device = session({"Neg"});
  ASSERT_NE(on_device, nullptr);
  EXPECT_EQ(input_of(on_device.get()).device, host().device());
  EXPECT_EQ(output_of(on_device.get()).device, host().device());
}

// A memory info that asks for no alignment, or for less than the allocator's, finds it: in Tenon through the C ABI, in
// stock hosts through their Python only (session_test.py), which looks the same allocators up without the alignment.
TEST_F(MemorySpaces, AMemoryInfoOfLessAlignmentFindsTheSharedAllocator) {
  use(kFullDevice);
  const auto plain = session({"Neg"});
  ASSERT_NE(plain, nullptr);
  for (const OrtDeviceMemoryType kind : {OrtDeviceMemoryType_HOST_ACCESSIBLE, OrtDeviceMemoryType_DEFAULT}) {
    const OrtMemoryInfo* own = api().EpDevice_MemoryInfo(host().device(), kind);
    OrtAllocator* expected = nullptr;
    ASSERT_THAT(ok(api().GetSharedAllocator(host().env(), own, &expected), "GetSharedAllocator"), is_ok());
    ASSERT_NE(expected, nullptr);
    for (const size_t alignment : {size_t{0}, size_t{16}, size_t{64}, size_t{4096}}) {
      OrtMemoryInfo* raw = nullptr;
      ASSERT_THAT(ok(api().CreateMemoryInfo_V2("x", OrtMemoryInfoDeviceType_GPU, api().MemoryInfoGetVendorId(own), 0,
                                               kind, alignment, OrtDeviceAllocator, &raw),
                     "CreateMemoryInfo_V2"),
                  is_ok());
      const auto info = host().own(raw, api().ReleaseMemoryInfo);
      OrtAllocator* found = nullptr;
      ASSERT_THAT(ok(api().GetSharedAllocator(host().env(), raw, &found), "GetSharedAllocator"), is_ok());
      const bool finds = alignment == 64 || (host().is_tenon() && alignment < 64);
      EXPECT_EQ(found != nullptr, finds) << "alignment " << alignment;
      EXPECT_TRUE(found == nullptr || found == expected);
      OrtAllocator* of_session = nullptr;
      EXPECT_EQ(ok(api().CreateAllocator(plain.get(), raw, &of_session), "CreateAllocator").ok(), finds) << alignment;
      if (of_session != nullptr) api().ReleaseAllocator(of_session);
    }
  }
}

}  // namespace
}  // namespace tenon::hosts
