#include "ep/host/plugin_provider.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <utility>

#include "abi/objects/allocator.h"
#include "abi/objects/ep_context.h"
#include "abi/objects/logger.h"
#include "abi/objects/run_options.h"
#include "abi/objects/session_config.h"
#include "abi/objects/session_options.h"
#include "base/log.h"
#include "device/copy.h"
#include "device/memory_space.h"
#include "ep/api/binding_alignment.h"
#include "ep/api/in_place.h"
#include "ep/api/run_fences.h"
#include "ep/host/control_flow_region.h"
#include "ep/host/custom_op_region.h"
#include "ep/host/ep_support_info.h"
#include "ep/host/ep_timeline.h"
#include "ep/host/plugin_options.h"
#include "ep/host/plugin_session.h"
#include "ops/attributes.h"
#include "runtime/memory.h"

namespace tenon::abi {

// Kernels may outlive the provider in plans that are being dropped, so they share what they need of it.
class PluginProvider::Host final : public KernelHost {
 public:
  OrtAllocator* allocator(OrtMemType mem_type) const override {
    if (mem_type == OrtMemTypeDefault && default_allocator_ != nullptr) return default_allocator_->ort();
    return default_allocator();
  }
  OrtAllocator* allocator(const OrtMemoryInfo& info) const override {
    OrtAllocator* serving = nullptr;
    for (const auto& one : allocators_) {
      if (one->info().device == info.device) return one->ort();
      if (serving == nullptr && serves(one->info().device, info.device)) serving = one->ort();
    }
    return info.device == OrtMemoryDevice{} ? default_allocator() : serving;
  }
  const OrtLogger* logger() const override { return logger_.get(); }
  const OrtKeyValuePairs& config() const override { return config_; }
  const OrtEp* ep() const override { return ep_->get(); }
  PluginProfiler* profiler() const override { return profiler_.get(); }
  bool is_cpu_ep() const override { return is_cpu_ep_; }

 private:
  OrtAllocator* default_allocator() const { return abi::default_allocator(); }

  friend class PluginProvider;
  std::shared_ptr<PluginEp> ep_;
  std::vector<std::shared_ptr<PluginAllocator>> allocators_;
  PluginAllocator* default_allocator_ = nullptr;
  std::shared_ptr<OrtLogger> logger_;
  OrtKeyValuePairs config_;
  std::shared_ptr<PluginProfiler> profiler_;
  bool is_cpu_ep_ = false;
};

PluginEp::PluginEp(std::shared_ptr<PluginFactory> factory, OrtEp* ep, std::vector<DeviceUse::Use> uses)
    : factory_(std::move(factory)), ep_(ep), uses_(std::move(uses)) {}

PluginEp::~PluginEp() {
  const auto release = TENON_MEMBER(factory_->ort(), OrtEpFactory, ReleaseEp);
  const Status status = call_value(factory_->who(), release, factory_->ort(), ep_);
  if (!status.ok()) log_warning("plugin", "{}", status.message());
}

Status PluginSession::set_dynamic_options(std::span<const char* const> keys,
                                          std::span<const char* const> values) const {
  for (const std::shared_ptr<PluginEp>& ep : eps) {
    const auto set = TENON_MEMBER(ep->get(), OrtEp, SetDynamicOptions);
    if (set.absent()) continue;
    TENON_TRY(call(ep->who(), set, ep->get(), keys.data(), values.data(), keys.size()));
  }
  return {};
}

PluginProvider::PluginProvider(std::shared_ptr<PluginFactory> factory, std::span<const size_t> devices)
    : factory_(std::move(factory)), name_(factory_->name()) {
  for (size_t device : devices) devices_.push_back(factory_->ort_devices()[device].get());
}

PluginProvider::~PluginProvider() = default;

Result<std::unique_ptr<DeviceProvider>> PluginProvider::create(std::shared_ptr<PluginFactory> factory,
                                                               const EpChoice& choice, std::span<const size_t> devices,
                                                               const SessionOptions& options) {
  std::unique_ptr<PluginProvider> provider(new PluginProvider(std::move(factory), devices));
  for (const EpChoice& other : options.eps) {
    if (other.ep_name == choice.ep_name) break;
    provider->preferred_before_ = other.ep_name;
  }
  provider->disallow_copies_ = options.disallow_copies;
  TENON_TRY(provider->create_ep(choice, options));
  TENON_TRY(provider->ask_ep());
  TENON_TRY(provider->create_allocators());
  if (PluginSession* session = MakingSession::plugins(); session != nullptr) {
    session->eps.push_back(provider->ep_);
    const auto& allocators = provider->host_->allocators_;
    session->allocators.insert(session->allocators.end(), allocators.begin(), allocators.end());
    if (session->profile != nullptr) {
      provider->host_->profiler_ = std::make_shared<PluginProfiler>(provider->ep_, session->profile);
      session->profilers.push_back(provider->host_->profiler_);
    }
  }
  return std::unique_ptr<DeviceProvider>(std::move(provider));
}

Status PluginProvider::create_ep(const EpChoice& choice, const SessionOptions& options) {
  host_ = std::make_shared<Host>();
  host_->logger_ = current_logger();
  auto origin = std::make_shared<GraphOrigin>();
  if (const auto path = options.config.find("tenon.model_path"); path != options.config.end())
    origin->model_path = path->second;
  origin_ = std::move(origin);
  host_->config_ = ep_config(*factory_, devices_, choice, options);
  TENON_TRY(check_weightless_devices());
  TENON_TRY_ASSIGN(context_model_, ContextModel::create(host_->config_, origin_->model_path));
  TENON_TRY_ASSIGN(const auto session_options, make_session_options(options, host_->config_));
  std::vector<const OrtHardwareDevice*> hardware;
  std::vector<const OrtKeyValuePairs*> metadata;
  for (const OrtEpDevice* device : devices_) {
    hardware.push_back(device->hardware);
    metadata.push_back(&device->ep_metadata);
  }
  TENON_TRY(ask_custom_ops());
  const auto create = TENON_MEMBER(factory_->ort(), OrtEpFactory, CreateEp);
  OrtEp* ep = nullptr;
  TENON_TRY(call(factory_->who(), create, factory_->ort(), hardware.data(), metadata.data(), hardware.size(),
                 static_cast<const OrtSessionOptions*>(session_options.get()),
                 static_cast<const OrtLogger*>(host_->logger_.get()), &ep));
  TENON_TRY(check_object(factory_->who(), "OrtEp", ep, create.name));
  std::vector<DeviceUse::Use> uses;
  uses.reserve(devices_.size());
  for (const OrtEpDevice* device : devices_) uses.emplace_back(device->use, UseKind::kSession);
  ep_ = std::make_shared<PluginEp>(factory_, ep, std::move(uses));
  host_->ep_ = ep_;
  return {};
}

Status PluginProvider::ask_custom_ops() {
  constexpr size_t kMaxDomains = 1024;
  OrtEpFactory* factory = factory_->ort();
  const auto get_count = TENON_MEMBER(factory, OrtEpFactory, GetNumCustomOpDomains);
  const auto get_domains = TENON_MEMBER(factory, OrtEpFactory, GetCustomOpDomains);
  if (get_count.absent() || get_domains.absent()) return {};
  size_t count = 0;
  TENON_TRY(call(factory_->who(), get_count, factory, &count));
  if (count > kMaxDomains)
    return device_error("{}: {} gives {} domains, and {} are the most that is believed.", factory_->who(),
                        get_count.name, count, kMaxDomains);
  std::vector<OrtCustomOpDomain*> domains(count, nullptr);
  TENON_TRY(call(factory_->who(), get_domains, factory, domains.data(), count));
  for (const OrtCustomOpDomain* domain : domains) {
    if (domain == nullptr)
      return device_error("{}: {} gives a null OrtCustomOpDomain.", factory_->who(), get_domains.name);
    if (!is_custom_op_domain(domain))
      return device_error("{}: {} gives a domain that CreateCustomOpDomain did not make, or that is released.",
                          factory_->who(), get_domains.name);
  }
  custom_ops_ = CustomOps(domains);
  if (Status twice = custom_ops_.check_names(); !twice.ok())
    return std::move(twice).with_context(format("in the custom operators of {}", factory_->who()));
  return {};
}

Status PluginProvider::check_compatibility() const {
  const std::string key = compatibility_key(name_);
  const auto& metadata = origin_->info.metadata;
  const auto info = std::find_if(metadata.begin(), metadata.end(), [&](const auto& one) { return one.first == key; });
  const auto validate = TENON_MEMBER(factory_->ort(), OrtEpFactory, ValidateCompiledModelCompatibilityInfo);
  if (info == metadata.end() || validate.absent()) return {};
  std::vector<const OrtHardwareDevice*> hardware;
  hardware.reserve(devices_.size());
  for (const OrtEpDevice* device : devices_) hardware.push_back(device->hardware);
  OrtCompiledModelCompatibility found = OrtCompiledModelCompatibility_EP_NOT_APPLICABLE;
  TENON_TRY(
      call(factory_->who(), validate, factory_->ort(), hardware.data(), hardware.size(), info->second.c_str(), &found));
  TENON_UNSUPPORTED_IF(found == OrtCompiledModelCompatibility_EP_UNSUPPORTED,
                       "{} cannot run this model, which it, or another version of it, has compiled: \"{}\".",
                       ep_->who(), info->second);
  if (found != OrtCompiledModelCompatibility_EP_SUPPORTED_PREFER_RECOMPILATION) return {};
  const char* strict = host_->config_.find("session.fail_on_suboptimal_compiled_model");
  TENON_UNSUPPORTED_IF(strict != nullptr && std::string_view(strict) == "1",
                       "{} would run this compiled model better if it were compiled again: \"{}\".", ep_->who(),
                       info->second);
  log_warning("plugin", "{} would run this compiled model better if it were compiled again: \"{}\".", ep_->who(),
              info->second);
  return {};
}

Status PluginProvider::check_context_data() const {
  constexpr uint32_t kRead = 1, kWrite = 2;
  const OrtSessionOptions* options = MakingSession::options();
  if (options == nullptr || (options->ep_context.read == nullptr && options->ep_context.write == nullptr)) return {};
  const auto get_support = TENON_MEMBER(ep_->get(), OrtEp, GetEpContextDataCallbackSupport);
  uint32_t flags = 0;
  if (!get_support.absent()) TENON_TRY(call(ep_->who(), get_support, static_cast<const OrtEp*>(ep_->get()), &flags));
  if ((flags & ~(kRead | kWrite)) != 0)
    return device_error("{}: {} gives the flags {:#x}, of which Tenon knows 1 (read) and 2 (write).", ep_->who(),
                        get_support.name, flags);
  if (options->ep_context.write == nullptr || context_model_ == nullptr || (flags & kWrite) != 0) return {};
  return with_ort_code(
      unsupported("{} does not write the data of EPContext nodes through the program's function.", ep_->who()),
      ORT_FAIL);
}

Status PluginProvider::check_weightless_devices() {
  const std::optional<OrtWeightlessSupport> mode = weightless_mode(host_->config_);
  if (!mode) return {};
  for (const OrtEpDevice* device : devices_) {
    const OrtWeightlessSupport support = weightless_support(device->ep_metadata);
    if (!serves_weightless(support, *mode))
      return device_error("{} supports the weightless mode \"{}\" by its metadata, and the session asks for \"{}\".",
                          factory_->who(), weightless_name(support), weightless_name(*mode));
  }
  host_->config_.set(kWeightlessKey, *mode == OrtWeightlessSupport_NONE ? "0" : "1");
  return {};
}

Status PluginProvider::check_weightless_ep() const {
  const std::optional<OrtWeightlessSupport> mode = weightless_mode(host_->config_);
  // The switch alone asks for any mode.
  const char* enabled = host_->config_.find(kWeightlessKey);
  const bool any = !mode && enabled != nullptr && std::string_view(enabled) == "1";
  if (!any && (!mode || *mode == OrtWeightlessSupport_NONE)) return {};
  const auto get_support = TENON_MEMBER(ep_->get(), OrtEp, GetWeightlessSupport);
  OrtWeightlessSupport support = OrtWeightlessSupport_NONE;
  TENON_TRY(call(ep_->who(), get_support, static_cast<const OrtEp*>(ep_->get()), &support));
  if (any && support == OrtWeightlessSupport_NONE)
    return device_error("{} supports no weightless mode, and the session asks for one (\"{}\" = 1).", ep_->who(),
                        kWeightlessKey);
  if (any) return {};
  if (!serves_weightless(support, *mode))
    return device_error("{} supports the weightless mode \"{}\", and the session asks for \"{}\".", ep_->who(),
                        weightless_name(support), weightless_name(*mode));
  const OrtWeightlessSupport promised = weightless_support(devices_[0]->ep_metadata);
  if (promised != support)
    log_warning("plugin", "{} supports the weightless mode \"{}\"; the metadata of its device says \"{}\".", ep_->who(),
                weightless_name(support), weightless_name(promised));
  return {};
}

Status PluginProvider::ask_ep() {
  OrtEp* ep = ep_->get();
  TENON_TRY(TENON_MEMBER(ep, OrtEp, GetCapability).check(ep_->who()));
  const auto get_name = TENON_MEMBER(ep, OrtEp, GetName);
  if (!get_name.absent()) {
    TENON_TRY_ASSIGN(const char* text, call_value(ep_->who(), get_name, static_cast<const OrtEp*>(ep)));
    TENON_TRY_ASSIGN(name_, checked_text(ep_->who(), get_name.name, text));
  }
  const auto concurrent = TENON_MEMBER(ep, OrtEp, IsConcurrentRunSupported);
  if (!concurrent.absent()) TENON_TRY(call(ep_->who(), concurrent, ep, &concurrent_));
  TENON_TRY_ASSIGN(transfer_, factory_->create_transfer(ep_));
  const auto get_registry = TENON_MEMBER(ep, OrtEp, GetKernelRegistry);
  if (!get_registry.absent()) {
    TENON_TRY(call(ep_->who(), get_registry, ep, &registry_));
    if (registry_ != nullptr) TENON_TRY(check_object(ep_->who(), "OrtKernelRegistry", registry_, get_registry.name));
  }
  const auto get_layout = TENON_MEMBER(ep, OrtEp, GetPreferredDataLayout);
  if (!get_layout.absent()) {
    OrtEpDataLayout layout = OrtEpDataLayout_NCHW;
    TENON_TRY(call(ep_->who(), get_layout, ep, &layout));
    if (layout == OrtEpDataLayout_NHWC)
      TENON_TRACE(kDispatch, "{} prefers the layout NHWC; it gets its nodes in NCHW.", ep_->who());
  }
  TENON_TRY(check_context_data());
  const auto promises = [&](const char* key) {
    const char* value = devices_.empty() ? nullptr : devices_[0]->ep_metadata.find(key);
    return value != nullptr && std::string_view(value) == "1";
  };
  in_place_ = promises(kInPlaceKey);
  TENON_TRY(read_binding_alignment());
  on_run_start_ = TENON_MEMBER(ep, OrtEp, OnRunStart);
  takes_fences_ = !on_run_start_.absent() && promises(kRunFencesKey);
  on_run_end_ = TENON_MEMBER(ep, OrtEp, OnRunEnd);
  return {};
}

Status PluginProvider::read_binding_alignment() {
  const char* value = devices_.empty() ? nullptr : devices_[0]->ep_metadata.find(kBindingAlignmentKey);
  if (value == nullptr) return {};
  const std::string_view text = value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), binding_alignment_);
  if (error == std::errc() && end == text.data() + text.size() && std::has_single_bit(binding_alignment_) &&
      binding_alignment_ <= kMostBindingAlignment)
    return {};
  return device_error("{}: its device's entry \"{}\" is \"{}\", which is no power of two from 1 to {}.", ep_->who(),
                      kBindingAlignmentKey, text, kMostBindingAlignment);
}

Status PluginProvider::create_allocators() {
  const auto create = TENON_MEMBER(ep_->get(), OrtEp, CreateAllocator);
  for (const OrtEpDevice* device : devices_) {
    for (const auto* info : {&device->default_memory, &device->host_accessible_memory}) {
      if (!info->has_value()) continue;
      std::shared_ptr<PluginAllocator> allocator;
      if (!create.absent()) {
        OrtAllocator* made = nullptr;
        TENON_TRY(call(ep_->who(), create, ep_->get(), &**info, &made));
        // Its memory keeps the EP's library and not the EP, as in stock hosts: a session's end is its EP's, whatever
        // tensors are left, and what the program lent it (a stream) is the program's again.
        TENON_TRY_ASSIGN(allocator, factory_->adopt_allocator(made, factory_));
      } else {
        TENON_TRY_ASSIGN(allocator, factory_->create_allocator(**info, nullptr, factory_));
      }
      if (allocator == nullptr) continue;
      allocators_.push_back(allocator);
      memory_.push_back(allocator->info());
      host_->allocators_.push_back(std::move(allocator));
    }
  }
  // The default memory is that of the EP's own default device, or else the first device's own memory.
  std::optional<OrtMemoryDevice> wanted;
  const auto get_default = TENON_MEMBER(ep_->get(), OrtEp, GetDefaultMemoryDevice);
  if (!get_default.absent()) {
    const OrtMemoryDevice* device = nullptr;
    TENON_TRY(call(ep_->who(), get_default, static_cast<const OrtEp*>(ep_->get()), &device));
    if (device != nullptr) {
      TENON_TRY(check_object(ep_->who(), "OrtMemoryDevice", device, get_default.name));
      wanted = *device;
    }
  }
  if (!wanted && !devices_.empty() && devices_[0]->default_memory) wanted = devices_[0]->default_memory->device;
  for (AllocatorId id : memory_.ids()) {
    const OrtMemoryDevice& device = memory_[id].device;
    if (wanted && device == *wanted && !default_allocator_.valid()) default_allocator_ = id;
    if (device.memory_type == OrtDeviceMemoryType_HOST_ACCESSIBLE && !host_accessible_allocator_.valid())
      host_accessible_allocator_ = id;
  }
  if (default_allocator_.valid()) host_->default_allocator_ = host_->allocators_[default_allocator_.index()].get();
  if (wanted && wanted->type != OrtMemoryInfoDeviceType_CPU) stream_device_ = wanted;
  return {};
}

void PluginProvider::set_model(const Model& model) {
  auto origin = std::make_shared<GraphOrigin>(*origin_);
  if (origin->model_path.empty()) origin->model_path = model.info.path;
  origin->graph_name = model.graph.name;
  origin->info = model.info;
  origin->notes = model.notes;
  origin_ = std::move(origin);
}

Result<std::vector<Claim>> PluginProvider::claim(const Graph& graph, IdSpan<NodeId, const bool> taken) {
  PerNode<std::string> owners(graph.nodes.size());
  for (NodeId n : owners.ids()) {
    if (taken[n]) owners[n] = preferred_before_;
  }
  regions_.clear();  // of an attempt before this one, a region of which some EP could not compile
  if (context_model_) context_model_->begin(graph, origin_->info, origin_->notes);
  // The reference shows what an EP of higher preference has compiled as an operator that nobody else knows, and EPs
  // that take neighbours as one rely on it.
  Graph shown;
  const bool some_taken = std::find(taken.begin(), taken.end(), true) != taken.end();
  if (some_taken) {
    shown = graph;
    for (NodeId n : owners.ids()) {
      if (!taken[n]) continue;
      shown.nodes[n].op_type = format("{}_{}", preferred_before_, n);
      shown.nodes[n].domain = preferred_before_;
    }
    if (shown.opset(preferred_before_) == 0) shown.opsets.emplace_back(preferred_before_, 1);
  }
  TENON_TRY_ASSIGN(const std::unique_ptr<OrtGraph> view, make_graph_view(some_taken ? shown : graph, origin_, owners));
  OrtEpGraphSupportInfo support(*view, name_, registry_);
  const auto get_capability = TENON_MEMBER(ep_->get(), OrtEp, GetCapability);
  TENON_TRY(call(ep_->who(), get_capability, ep_->get(), static_cast<const OrtGraph*>(view.get()), &support));
  // Nodes of an EP of higher preference are not up for choice; asking for them is no mistake.
  std::vector<Claim> claims;
  for (Claim& claim : support.claims) {
    const bool free = std::none_of(claim.nodes.begin(), claim.nodes.end(), [&](NodeId node) { return taken[node]; });
    if (free) claims.push_back(std::move(claim));
  }
  return claims;
}

Result<std::unique_ptr<DeviceProvider>> PluginProvider::host_companion() {
  if (custom_ops_.empty()) return std::unique_ptr<DeviceProvider>();
  // Its nodes are the CPU EP's, as a profile shows them.
  auto host = std::make_shared<Host>(*host_);
  host->profiler_ = nullptr;
  host->is_cpu_ep_ = true;
  return make_custom_op_provider(custom_ops_, std::move(host), ep_);
}

Status PluginProvider::compile(std::span<const Region> regions) {
  TENON_TRY(check_compatibility());
  TENON_TRY(check_weightless_ep());
  std::vector<const Region*> fused;
  for (const Region& region : regions) {
    if (region.fused) fused.push_back(&region);
  }
  refused_.clear();
  if (!fused.empty()) TENON_TRY(compile_or_refuse(fused));
  for (const Region& region : regions) {
    if (!region.fused) TENON_TRY(create_kernel_region(region));
  }
  return {};
}

namespace {

// Whether another EP may do what this one failed at: of what failed for good, and of what was asked to stop, the
// program hears.
bool may_go_on(const Status& failed) {
  return failed.code() != StatusCode::kDeviceLost && failed.code() != StatusCode::kCancelled;
}

// Whether it has parts of a model that this EP has compiled before: no other EP can run those.
bool has_compiled_parts(const Region& region) {
  return std::any_of(region.body.nodes.begin(), region.body.nodes.end(),
                     [](const Node& node) { return node.op_type == "EPContext"; });
}

}  // namespace

Status PluginProvider::compile_or_refuse(std::span<const Region* const> regions) {
  TENON_TRY(check_compiling(regions));
  Status failed;
  TENON_TRY(compile_fused(regions, failed));
  // Who writes a model for this EP wants that EP's parts in it.
  if (failed.ok() || context_model_ || !may_go_on(failed) ||
      std::any_of(regions.begin(), regions.end(), [](const Region* region) { return has_compiled_parts(*region); }))
    return failed;
  for (const Region* region : regions) {
    Status why = failed;
    if (regions.size() > 1) {
      // One at a time tells which it is; one Compile call is for all or none.
      why = Status();
      TENON_TRY(compile_fused({&region, 1}, why));
      if (!why.ok() && !may_go_on(why)) return why;
    }
    if (!why.ok()) refused_.push_back({.id = region->id, .why = std::move(why)});
  }
  return {};
}

// A program that wants to load compiled models alone; CompileModel compiles all the same.
Status PluginProvider::check_compiling(std::span<const Region* const> regions) const {
  const char* disabled = host_->config_.find("session.disable_model_compile");
  const OrtSessionOptions* options = MakingSession::options();
  if (disabled == nullptr || std::string_view(disabled) != "1" || (options != nullptr && options->compilation))
    return {};
  for (const Region* region : regions) {
    for (const Node& node : region->body.nodes) {
      if (node.op_type == "EPContext") continue;
      return with_ort_code(unsupported("{} would have to compile {}, and the session disables that "
                                       "(\"session.disable_model_compile\" = 1).",
                                       ep_->who(), node.label(region->body)),
                           ORT_MODEL_REQUIRES_COMPILATION);
    }
  }
  return {};
}

Status PluginProvider::compile_fused(std::span<const Region* const> regions, Status& failed) {
  const auto compile = TENON_MEMBER(ep_->get(), OrtEp, Compile);
  TENON_TRY(compile.check(ep_->who()));
  TENON_TRY(TENON_MEMBER(ep_->get(), OrtEp, ReleaseNodeComputeInfos).check(ep_->who()));
  std::vector<std::unique_ptr<OrtGraph>> views;
  std::vector<std::unique_ptr<OrtNode>> nodes;
  std::vector<const OrtGraph*> graphs;
  std::vector<const OrtNode*> fused_nodes;
  for (const Region* region : regions) {
    TENON_TRY_ASSIGN(auto view, make_region_view(region->body, region->name, origin_, region->nodes));
    auto node = make_region_node(*view, region->name, name_, region->id);
    graphs.push_back(view.get());
    fused_nodes.push_back(node.get());
    views.push_back(std::move(view));
    nodes.push_back(std::move(node));
  }
  auto infos = std::make_shared<ComputeInfos>(ep_, regions.size(), in_place_);
  std::vector<OrtNode*> context_nodes(regions.size(), nullptr);
  failed = call(ep_->who(), compile, ep_->get(), graphs.data(), fused_nodes.data(), regions.size(),
                infos->infos().data(), context_nodes.data());
  // From here they are the host's, whatever Compile says.
  const std::vector<std::unique_ptr<OrtNode>> owned(context_nodes.begin(), context_nodes.end());
  if (!failed.ok()) return {};
  for (size_t i = 0; context_model_ && i < regions.size(); ++i) {
    if (owned[i] != nullptr) TENON_TRY(context_model_->replace(*regions[i], *owned[i]));
  }
  const auto get_info = TENON_MEMBER(ep_->get(), OrtEp, GetCompiledModelCompatibilityInfo);
  if (context_model_ && !get_info.absent()) {
    TENON_TRY_ASSIGN(const char* text, call_value(ep_->who(), get_info, ep_->get(), graphs[0]));
    if (text != nullptr) {
      TENON_TRY_ASSIGN(const std::string info, checked_text(ep_->who(), get_info.name, text));
      if (!info.empty()) context_model_->set_compatibility(name_, info);
    }
  }
  (void)factory_->stream_aware();
  for (size_t i = 0; i < regions.size(); ++i) {
    TENON_TRY_ASSIGN(auto made, make_compiled_region(infos, i, *regions[i]));
    made->spaces.inputs.assign(regions[i]->body.inputs.size(), default_allocator_);
    made->spaces.outputs.assign(regions[i]->body.outputs.size(), default_allocator_);
    regions_[regions[i]->id] = std::move(made);
  }
  return {};
}

Status PluginProvider::create_kernel_region(const Region& region) {
  const Node& node = region.body.nodes[NodeId(0)];
  const OrtKernelRegistry::Entry* const own = registry_ != nullptr ? registry_->find(region.body, node) : nullptr;
  if (const OrtCustomOp* op = own == nullptr ? custom_ops_.find(region.body, node) : nullptr; op != nullptr) {
    TENON_TRY_ASSIGN(regions_[region.id], create_custom_op_region(op, region));
    return {};
  }
  if (registry_ == nullptr)
    return device_error("{} takes {} for a kernel of its own, but it has no kernel registry.", ep_->who(),
                        node.label(region.body));
  std::string why_not;
  const OrtKernelRegistry::Entry* entry = registry_->find(region.body, node, &why_not);
  if (entry == nullptr)
    return device_error("{} takes {}, for which its kernel registry has no kernel: {}.", ep_->who(),
                        node.label(region.body), why_not);
  std::vector<std::unique_ptr<OrtValue>> placed(node.inputs.size());
  for (size_t i = 0; i < placed.size(); ++i) {
    const AllocatorId allocator = allocator_of(entry->def->input_mem_type(i));
    const ConstantRef constant = node.inputs[i] == kNoValue ? nullptr : region.body.value(node.inputs[i]).constant;
    if (constant == nullptr || constant->type == DataType::kString || !allocator.valid() ||
        host_can_address(allocators_[allocator]->space()))
      continue;
    TENON_TRY_ASSIGN(const Tensor tensor, place_constant(constant, region.body.value(node.inputs[i]).name, allocator));
    placed[i] = std::make_unique<OrtValue>(make_value(tensor, memory_[allocator]));
  }
  TENON_TRY_ASSIGN(auto made, make_kernel_region(ep_, *entry, region, host_, !default_allocator_.valid(), placed));
  made->spaces.inputs.assign(region.body.inputs.size(), default_allocator_);
  made->spaces.outputs.assign(region.body.outputs.size(), default_allocator_);
  for (size_t i = 0; i < made->input_map.size(); ++i) {
    if (made->input_map[i] >= 0) made->spaces.inputs[made->input_map[i]] = allocator_of(entry->def->input_mem_type(i));
  }
  for (size_t i = 0; i < made->output_map.size(); ++i) {
    if (made->output_map[i] >= 0)
      made->spaces.outputs[made->output_map[i]] = allocator_of(entry->def->output_mem_type(i));
  }
  // The bodies run on the CPU EP, and so does all around them; only the helper works in the EP's own memory.
  if (ControlFlowImpl* flow = made->control_flow()) {
    std::fill(made->spaces.inputs.begin(), made->spaces.inputs.end(), AllocatorId::none());
    std::fill(made->spaces.outputs.begin(), made->spaces.outputs.end(), AllocatorId::none());
    if (default_allocator_.valid()) {
      flow->memory = {host_->allocators_[default_allocator_.index()], transfer_.get()};
    }
  }
  regions_[region.id] = std::move(made);
  return {};
}

// In the EP's memory when the operator is for the EP, but for the inputs that it wants on the host.
Result<std::shared_ptr<PluginRegion>> PluginProvider::create_custom_op_region(const OrtCustomOp* op,
                                                                              const Region& region) const {
  TENON_TRY_ASSIGN(const std::string ep, custom_op_ep(op));
  SpaceChoice spaces;
  if (!ep.empty()) {
    if (ep != name_)
      return device_error("{} takes {}, whose custom operator is for the EP \"{}\".", ep_->who(),
                          region.body.nodes[NodeId(0)].label(region.body), ep);
    spaces.outputs.assign(region.body.outputs.size(), default_allocator_);
    const Node& node = region.body.nodes[NodeId(0)];
    for (ValueId id : region.body.inputs) {
      const auto input = std::find(node.inputs.begin(), node.inputs.end(), id) - node.inputs.begin();
      TENON_TRY_ASSIGN(const OrtMemType wanted, custom_op_input_memory(op, input));
      spaces.inputs.push_back(allocator_of(wanted));
    }
  }
  return make_custom_op_region(op, region, host_, std::move(spaces), ep_);
}

Result<Tensor> PluginProvider::place_constant(const ConstantRef& constant, const std::string& name, AllocatorId id) {
  PlacedConstant& entry = placed_constants_[{constant.get(), id}];
  if (entry.source != nullptr) return entry.tensor;
  DeviceAllocator& allocator = *allocators_[id];
  TENON_TRY_ASSIGN(std::shared_ptr<std::byte> memory, allocate_device(allocator, constant->size_bytes));
  TENON_TRY_ASSIGN(Tensor target, Tensor::view(constant->type, constant->shape, memory.get(), constant->size_bytes,
                                               memory, allocator.space()));
  TENON_TRY_ASSIGN(const Tensor source,
                   Tensor::view(constant->type, constant->shape, const_cast<std::byte*>(constant->data.bytes()),
                                constant->size_bytes));
  const char* what = constant_names_.insert(name).first->c_str();
  const CopyReason reason = CopyReason::kNotCompatible;
  if (disallow_copies_ && constant->size_bytes > 0) {
    return copy_disallowed(what, source.space(), target.space(), reason)
        .with_context(format("while placing a constant for {}", ep_->who()));
  }
  TENON_TRY_CONTEXT(copy_tensor(target, source, reason, what, &constant_copies_, transfer_.get()),
                    "while placing a constant for {}", ep_->who());
  entry = {constant, target};
  return target;
}

Tensor PluginProvider::placed_constant(const ConstantRef& constant, AllocatorId allocator) const {
  const auto found = placed_constants_.find({constant.get(), allocator});
  return found != placed_constants_.end() ? found->second.tensor : Tensor();
}

bool PluginProvider::host_runs(const Node& region) const { return region_of(region).control_flow() != nullptr; }

AllocatorId PluginProvider::allocator_of(OrtMemType mem_type) const {
  return mem_type == OrtMemTypeDefault ? default_allocator_ : host_accessible_allocator_;
}

Status PluginProvider::loaded() {
  // All EPs of the session have compiled; the last to come here has it alone, unless a compilation has it.
  if (const std::shared_ptr<ContextModel> model = std::move(context_model_); model.use_count() == 1)
    TENON_TRY(model->write());
  const auto ended = TENON_MEMBER(ep_->get(), OrtEp, OnSessionInitializationEnd);
  return ended.absent() ? Status() : call(ep_->who(), ended, ep_->get());
}

const PluginRegion& PluginProvider::region_of(const Node& node) const {
  const auto found = regions_.find(static_cast<int32_t>(Attributes(node).integer("region")));
  TENON_CHECK(found != regions_.end());
  return *found->second;
}

SpaceChoice PluginProvider::choose_spaces(const KernelNode& node) const { return region_of(*node.node).spaces; }

Result<std::unique_ptr<Kernel>> PluginProvider::create_kernel(const KernelNode& node) const {
  const auto found = regions_.find(static_cast<int32_t>(Attributes(*node.node).integer("region")));
  TENON_CHECK(found != regions_.end());
  if (found->second->control_flow() != nullptr) return make_control_flow_kernel(found->second, node, *subgraphs_);
  return make_region_kernel(found->second, node, host_, memory_);
}

Result<std::unique_ptr<DeviceStream>> PluginProvider::create_stream() {
  if (!stream_device_ || !factory_->stream_aware()) return std::unique_ptr<DeviceStream>();
  const auto create = TENON_MEMBER(ep_->get(), OrtEp, CreateSyncStreamForDevice);
  std::unique_ptr<PluginStream> stream;
  if (!create.absent()) {
    OrtSyncStreamImpl* impl = nullptr;
    TENON_TRY(call(ep_->who(), create, ep_->get(), &*stream_device_, &impl));
    if (impl != nullptr) {
      TENON_TRY_ASSIGN(stream, PluginStream::create(ep_->who(), impl, *stream_device_, *factory_, ep_));
    }
  } else {
    TENON_TRY_ASSIGN(stream, factory_->create_stream(*stream_device_, nullptr, ep_));
  }
  return std::unique_ptr<DeviceStream>(std::move(stream));
}

bool PluginProvider::can_use_stream(const DeviceStream& stream) const {
  const auto* plugin = dynamic_cast<const PluginStream*>(&stream);
  if (plugin == nullptr || !stream_device_ || !factory_->stream_aware()) return false;
  const OrtMemoryDevice& device = plugin->device();
  return plugin->is_kept_by(factory_.get()) && device.type == stream_device_->type &&
         device.vendor_id == stream_device_->vendor_id && device.device_id == stream_device_->device_id;
}

bool PluginProvider::takes_fence(const Fence& fence) const {
  if (!takes_fences_) return false;
  const auto* timeline = dynamic_cast<const EpTimeline*>(fence.timeline.get());
  return timeline != nullptr && &timeline->device() == devices_[0];
}

namespace {

// By the EP's own handles. The fences' owner keeps them until the run is over.
std::vector<RunFence> handles_of(std::span<const Fence> fences) {
  std::vector<RunFence> handles;
  handles.reserve(fences.size());
  for (const Fence& fence : fences)
    handles.push_back({static_cast<const EpTimeline&>(*fence.timeline).handle(), fence.value});
  return handles;
}

}  // namespace

Status PluginProvider::run_start(const RunInfo& info) {
  if (on_run_start_.absent()) return {};
  static const OrtRunOptions defaults;
  const auto* options =
      info.native_options != nullptr ? static_cast<const OrtRunOptions*>(info.native_options) : &defaults;
  if (info.waits.empty() && info.signals.empty()) return call(ep_->who(), on_run_start_, ep_->get(), options);
  const std::vector<RunFence> waits = handles_of(info.waits), signals = handles_of(info.signals);
  const RunFences fences{.size_bytes = sizeof(RunFences),
                         .calls = static_cast<uint32_t>(info.calls),
                         .waits = waits.data(),
                         .signals = signals.data(),
                         .wait_count = waits.size(),
                         .signal_count = signals.size()};
  OrtRunOptions own(*options);
  own.fences = &fences;
  TENON_TRY(call(ep_->who(), on_run_start_, ep_->get(), static_cast<const OrtRunOptions*>(&own)));
  if (!own.fences_asked)
    return device_error("{}: its device has \"{}\" = \"1\", and {} succeeds without asking for the run's fences.",
                        ep_->who(), kRunFencesKey, on_run_start_.name);
  for (const Fence& fence : info.signals) static_cast<EpTimeline&>(*fence.timeline).promise(fence.value);
  return {};
}

Status PluginProvider::run_end(const RunInfo& info, bool synchronize) {
  if (on_run_end_.absent()) return {};
  static const OrtRunOptions defaults;
  const auto* options =
      info.native_options != nullptr ? static_cast<const OrtRunOptions*>(info.native_options) : &defaults;
  return call(ep_->who(), on_run_end_, ep_->get(), options, synchronize);
}

}  // namespace tenon::abi
