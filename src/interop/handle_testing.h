// For tests of imports: a caller with a handle of any kind, who counts what is given back. Linux.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tenon/dlpack.h>
#include <tenon/importer.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "interop/dlpack_types.h"
#include "interop/handle_table.h"

namespace tenon {

inline constexpr size_t kHandleBytes = 4096;  // of the memory behind a handle

inline bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

inline int make_memfd() {
  const int fd = ::memfd_create("tenon-test", MFD_CLOEXEC);
  EXPECT_EQ(::ftruncate(fd, kHandleBytes), 0);
  return fd;
}

// Outlives the imports of its handle.
class HandleCaller {
 public:
  // `object`: what NT handles and IPC handles name, for importers that look.
  HandleCaller(HandleType type, bool is_timeline, uint64_t object = 0) : type_(type), object_(object) {
    if (is_timeline) timeline_ = SharedTimeline::create("caller").value();
    if (type == HandleType::kFd) fd_ = is_timeline ? ::fcntl(timeline_->fd(), F_DUPFD_CLOEXEC, 0) : make_memfd();
    std::memcpy(ipc_, &object, sizeof(object));
    tensor_.dl_tensor = {.data = bytes_,
                         .device = {.device_type = kDLCPU, .device_id = 0},
                         .ndim = 1,
                         .dtype = {.code = kDlpackUint, .bits = 8, .lanes = 1},
                         .shape = &count_,
                         .strides = nullptr,
                         .byte_offset = 0};
    tensor_.version = {.major = kDlpackMajor, .minor = 0};
    tensor_.manager_ctx = this;
    tensor_.deleter = [](DLManagedTensorVersioned* self) {
      ++static_cast<HandleCaller*>(self->manager_ctx)->given_back_;
    };
    callbacks_.version = TENON_TIMELINE_CALLBACKS_VERSION;
    callbacks_.user_data = this;
    callbacks_.value = [](void*, uint64_t* value) -> int32_t { return static_cast<int32_t>(*value = 0); };
    callbacks_.wait = [](void*, uint64_t, int64_t) -> int32_t { return TENON_TIMELINE_OK; };
    callbacks_.signal = [](void*, uint64_t) -> int32_t { return TENON_TIMELINE_OK; };
    callbacks_.release = [](void* self) { ++static_cast<HandleCaller*>(self)->given_back_; };
  }
  ~HandleCaller() {
    if (fd_ >= 0 && !taken_) ::close(fd_);
  }
  HandleCaller(const HandleCaller&) = delete;
  HandleCaller& operator=(const HandleCaller&) = delete;

  // As the C++ API has it. The file descriptor stays the caller's: release_fd() unless an import has taken it.
  OwnedHandle owned() {
    return type_ == HandleType::kFd ? OwnedHandle::take_fd(fd_) : OwnedHandle::borrow_pointer(pointer());
  }
  // The result of `import`, which gets owned(). A handle that it fails to take is the caller's own again.
  template <typename Import>
  auto with_owned(const Import& import) {
    OwnedHandle handle = owned();
    auto result = import(handle);
    EXPECT_EQ(handle.valid(), !result.ok());
    (void)handle.release_fd();
    return result;
  }
  // As the C ABI passes it.
  void* native() { return type_ == HandleType::kFd ? reinterpret_cast<void*>(static_cast<intptr_t>(fd_)) : pointer(); }
  TenonExternalMemoryInfo info(ExternalMemoryKind kind) {
    TenonExternalMemoryInfo info = {};
    info.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
    info.kind = static_cast<uint32_t>(kind);
    if (type_ == HandleType::kDlpack) info.flags = TENON_EXTERNAL_MEMORY_DLPACK_VERSIONED;
    if (type_ == HandleType::kFd) {
      info.handle.fd = fd_;
    } else {
      info.handle.pointer = pointer();
    }
    return info;
  }
  // The memory behind pointers and DLPack tensors.
  void* bytes() { return bytes_; }

  void expect_untouched(const std::string& where) const {
    EXPECT_TRUE(fd_ < 0 || is_open(fd_)) << where;
    EXPECT_EQ(given_back_, 0) << where;
  }
  // `alive`: the import still lives.
  void expect_owned_as(HandleOwnership ownership, bool alive, const std::string& where) {
    const bool consumed = ownership == HandleOwnership::kConsumed;
    if (fd_ >= 0) {
      taken_ = taken_ || consumed;
      if (alive) {
        EXPECT_EQ(is_open(fd_), !consumed) << where;
      }
    }
    const bool gives_back = type_ == HandleType::kDlpack || type_ == HandleType::kCallbacks;
    EXPECT_EQ(given_back_, consumed && gives_back && !alive ? 1 : 0) << where;
  }

 private:
  void* pointer() {
    switch (type_) {
      case HandleType::kDlpack:
        return &tensor_;
      case HandleType::kCallbacks:
        return &callbacks_;
      case HandleType::kIpc:
        return ipc_;
      case HandleType::kNtHandle:
        return object_ != 0 ? reinterpret_cast<void*>(object_) : bytes_;
      default:
        return bytes_;
    }
  }

  const HandleType type_;
  const uint64_t object_;
  std::shared_ptr<SharedTimeline> timeline_;
  int fd_ = -1;
  bool taken_ = false;
  alignas(64) std::byte bytes_[kHandleBytes] = {};
  std::byte ipc_[TENON_IPC_HANDLE_BYTES] = {};
  int64_t count_ = kHandleBytes;
  DLManagedTensorVersioned tensor_{};
  TenonTimelineCallbacks callbacks_{};
  int given_back_ = 0;
};

}  // namespace tenon
