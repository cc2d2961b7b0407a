// OrtValue, as Python sees it.
#pragma once

#include <tenon/object_type.h>
#include <tenon/session.h>
#include <tenon/tensor.h>

#include <map>

#include "core.h"
#include "sparse.h"

namespace tenon::python {

// "tensor(float)", "seq(map(int64,tensor(float)))": as onnxruntime names types.
std::string type_text(DataType type);
std::string type_text(const ObjectType& type);
std::string type_text(const ValueInfo& info);

// A value of the C ABI and a view of what is in it.
class Value {
 public:
  explicit Value(Tensor tensor);
  // Takes the value. Null, or a value with nothing in it, is an empty optional.
  static Value take(OrtValue* value);

  explicit Value(SparseRef sparse) : sparse_(std::move(sparse)) {}

  const OrtValue* handle() const { return sparse_ != nullptr ? sparse_->value.get() : value_.get(); }
  OrtValue* handle() { return sparse_ != nullptr ? sparse_->value.get() : value_.get(); }
  const Tensor& tensor() const { return tensor_; }  // of a sparse one: undefined
  const SparseRef& sparse() const { return sparse_; }

 private:
  Value() = default;
  OwnedValue value_;
  Tensor tensor_;
  SparseRef sparse_;  // null: dense
};

inline constexpr uint32_t kNvidia = 0x10de;

// Where tensors are put: (type, vendor, id, memory), as OrtDevice.make names it.
struct Device {
  int type = 0;
  int memory = 0;
  uint32_t vendor = 0;
  int id = 0;
};
// A name, or an OrtDevice, beside which the other arguments do not count. Errors: Exception for a name that onnxruntime
// does not know either. A vendor below 0 is the name's own.
Device device_of_argument(nb::handle device, int id, int64_t vendor);
Device make_device(const std::string& name, int id, int64_t vendor);
OwnedMemoryInfo memory_info_of(const Device& device);

// The Python class of OrtMemoryInfo; the info is the object's, or somebody else's who lives longer.
struct MemoryInfo {
  OwnedMemoryInfo owned;
  const OrtMemoryInfo* info = nullptr;
  std::shared_ptr<const void> owner = nullptr;  // of an info that is part of something
};
// A piece of hardware; it lives as long as the env.
struct HardwareDevice {
  const OrtHardwareDevice* device;
};
// A stream of a device's, in which copy_tensors() queues. Its end waits for the copy that is under way, whose thread
// takes the interpreter's lock to let go of memory that Python's objects own: so the waiting thread gives the lock
// away.
struct SyncStream {
  SyncStream() = default;
  SyncStream(SyncStream&&) noexcept = default;
  SyncStream& operator=(SyncStream&&) noexcept = default;
  ~SyncStream() {
    if (!handle) return;
    const Unlocked unlocked;
    const auto ended = std::move(handle);
  }
  Owned<OrtSyncStream, &OrtApi::ReleaseSyncStream> handle;
};
// Texts by name; null has none.
std::map<std::string, std::string> to_map(const OrtKeyValuePairs* pairs);
// A device of an execution provider; it lives as long as the provider's library.
struct EpDevice {
  const OrtEpDevice* device;
};
// Errors: those of a provider that has no streams.
SyncStream create_stream(const EpDevice& device);
std::string device_name(const MemorySpace& space);

// numpy's type or ONNX's number. Errors: RuntimeError for a type that no tensor of numbers has.
DataType element_type_from(nb::handle given);
// Errors: InvalidArgument for too many dimensions.
Shape shape_of_dims(const std::vector<int64_t>& dims);

}  // namespace tenon::python
