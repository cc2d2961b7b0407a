// The CUDA plugin with its own claims and plans, whose kernel templates run on the host, over the fake driver.
#include "ep/cuda/cuda_factory.h"
#include "ep/cuda/fake_plugin/host_compiler.h"

extern "C" {

[[gnu::visibility("default")]] OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base,
                                                            const OrtLogger* logger, OrtEpFactory** factories,
                                                            size_t room, size_t* count) noexcept {
  return tenon::cuda::create_factories(base, logger, factories, room, count, &tenon::cuda::fake::make_host_compiler);
}

[[gnu::visibility("default")]] OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  (void)tenon::plugin::EpFactory::take_back(factory);
  return nullptr;
}

}  // extern "C"
