// What the plugin's library shows.
#include "ep/cuda/cuda_factory.h"

extern "C" {

[[gnu::visibility("default")]] OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base,
                                                            const OrtLogger* logger, OrtEpFactory** factories,
                                                            size_t room, size_t* count) noexcept {
  if (count != nullptr) *count = 0;
  tenon::Result<tenon::plugin::HostApi> host = tenon::plugin::HostApi::connect(base);
  if (!host.ok()) {
    // A host that is too old still has the first function of its oldest table.
    const OrtApi* oldest = base != nullptr && base->GetApi != nullptr ? base->GetApi(1) : nullptr;
    return oldest != nullptr ? oldest->CreateStatus(ORT_NOT_IMPLEMENTED, host.status().message().c_str()) : nullptr;
  }
  return host->guarded([&]() -> tenon::Status {
    TENON_INVALID_IF(factories == nullptr || count == nullptr, "The result pointers of CreateEpFactories are null.");
    TENON_INVALID_IF(room == 0, "The host has no room for a factory.");
    TENON_TRY_ASSIGN(auto factory, tenon::cuda::CudaFactory::create(*host, logger, tenon::cuda::cuda_driver(), {}));
    factories[0] = tenon::plugin::EpFactory::release_to_host(std::move(factory));
    *count = 1;
    return tenon::Status();
  });
}

[[gnu::visibility("default")]] OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  (void)tenon::plugin::EpFactory::take_back(factory);
  return nullptr;
}

}  // extern "C"
