// An OrtEp and its factory. Each object that the EP made keeps it alive; the last one calls ReleaseEp.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <string>

#include "ep/host/plugin_factory.h"
#include "ep/host/plugin_member.h"

namespace tenon::abi {

class PluginEp {
 public:
  // `uses`: of the devices that the EP runs on.
  PluginEp(std::shared_ptr<PluginFactory> factory, OrtEp* ep, std::vector<DeviceUse::Use> uses);
  ~PluginEp();
  PluginEp(const PluginEp&) = delete;
  PluginEp& operator=(const PluginEp&) = delete;

  OrtEp* get() const { return ep_; }
  PluginFactory& factory() const { return *factory_; }
  const std::string& who() const { return factory_->who(); }

 private:
  const std::shared_ptr<PluginFactory> factory_;
  OrtEp* const ep_;
  const std::vector<DeviceUse::Use> uses_;
};

}  // namespace tenon::abi
