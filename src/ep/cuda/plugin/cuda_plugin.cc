// The exported functions of the plugin's library.
#include "ep/cuda/compute/region_compiler.h"
#include "ep/cuda/cuda_factory.h"

extern "C" {

[[gnu::visibility("default")]] OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base,
                                                            const OrtLogger* logger, OrtEpFactory** factories,
                                                            size_t room, size_t* count) noexcept {
  return tenon::cuda::create_factories(base, logger, factories, room, count, &tenon::cuda::make_region_compiler);
}

[[gnu::visibility("default")]] OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  (void)tenon::plugin::EpFactory::take_back(factory);
  return nullptr;
}

}  // extern "C"
