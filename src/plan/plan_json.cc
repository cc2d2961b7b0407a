// A plan's report as JSON.
#include <tenon/plan_report.h>

#include "base/format.h"
#include "base/json.h"

namespace tenon {

namespace {

std::string_view kind_name(PlanReport::Location::Kind kind) {
  using Kind = PlanReport::Location::Kind;
  switch (kind) {
    case Kind::kAbsent:
      return "absent";
    case Kind::kConstant:
      return "constant";
    case Kind::kInput:
      return "input";
    case Kind::kOutput:
      return "output";
    case Kind::kArena:
      return "arena";
    case Kind::kDynamic:
      return "dynamic";
    case Kind::kPlacedConstant:
      return "placed_constant";
    case Kind::kHandle:
      return "handle";
  }
  return "absent";
}

std::string_view kind_name(PlanReport::UnknownCopies::Kind kind) {
  using Kind = PlanReport::UnknownCopies::Kind;
  return kind == Kind::kBody ? "body" : kind == Kind::kOutput ? "output" : "rest";
}

// Commas and brackets in one place: begin, members or elements, end.
class JsonText {
 public:
  JsonText& begin(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  JsonText& end(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  JsonText& key(std::string_view name) {
    separate();
    text_ += json_string(name);
    text_ += ':';
    first_ = true;
    return *this;
  }
  void value(std::string_view text) { raw(json_string(text)); }
  void value(const std::string& text) { raw(json_string(text)); }
  void value(const char* text) { raw(json_string(text)); }
  void value(bool yes) { raw(yes ? "true" : "false"); }
  void value(int32_t number) { raw(std::to_string(number)); }
  void value(int64_t number) { raw(std::to_string(number)); }
  void value(size_t number) { raw(std::to_string(number)); }
  void null() { raw("null"); }
  template <typename T>
  JsonText& member(std::string_view name, const T& content) {
    key(name).value(content);
    return *this;
  }
  // `write` puts one element.
  template <typename Range, typename Write>
  JsonText& list(std::string_view name, const Range& range, const Write& write) {
    key(name).begin('[');
    for (const auto& element : range) write(element);
    return end(']');
  }
  JsonText& strings(std::string_view name, const std::vector<std::string>& range) {
    return list(name, range, [this](const std::string& text) { value(text); });
  }
  std::string take() { return std::move(text_); }

 private:
  void separate() {
    if (!first_) text_ += ',';
    first_ = false;
  }
  void raw(std::string_view text) {
    separate();
    text_ += text;
  }

  std::string text_;
  bool first_ = true;
};

class PlanWriter {
 public:
  explicit PlanWriter(const PlanReport& plan) : plan_(plan) {}

  std::string write() {
    json_.begin('{').strings("eps", plan_.eps);
    json_.list("spaces", plan_.spaces, [&](const PlanReport::Space& space) {
      json_.begin('{').member("name", space.memory.to_string()).member("arena_bytes", space.arena_bytes).end('}');
    });
    json_.member("unshared_bytes", plan_.unshared_bytes);
    tensors("inputs", plan_.inputs);
    tensors("outputs", plan_.outputs);
    json_.list("steps", plan_.steps, [&](const PlanReport::Step& step) { put(step); });
    json_.list("without_step", plan_.without_step, [&](const PlanReport::View& view) {
      json_.begin('{').member("label", view.label).strings("model_nodes", view.model_nodes);
      json_.member("text", view.to_string())
          .member("kind", view.joins_inputs ? "joined_inputs" : "view")
          .member("value", view.value);
      json_.list("offsets_bytes", view.offsets_bytes, [&](size_t offset) { json_.value(offset); }).end('}');
    });
    json_.list("nodes", plan_.nodes, [&](const PlanReport::ModelNode& node) { put(node); });
    json_.list("constants", plan_.constants, [&](const PlanReport::PlacedConstant& constant) {
      json_.begin('{').member("space", constant.space).member("bytes", constant.bytes).end('}');
    });
    json_.list("copies", plan_.copies.ledger.records, [&](const CopyRecord& copy) { put(copy); });
    json_.member("bytes_copied", plan_.copies.ledger.bytes_copied());
    json_.key("copies_known_in_a_run").begin('[');
    for (size_t i = 0; i < plan_.unknown_copies.size(); ++i) {
      const PlanReport::UnknownCopies& unknown = plan_.unknown_copies[i];
      json_.begin('{').member("kind", kind_name(unknown.kind)).key("name");
      unknown.name.empty() ? json_.null() : json_.value(unknown.name);
      json_.member("text", plan_.copies.open[i]).end('}');
    }
    json_.end(']');
    json_.list("output_copies", plan_.output_copies, [&](const PlanReport::OutputCopy& copy) {
      json_.begin('{').key("source");
      put(copy.source);
      json_.member("output", copy.output).member("reason", copy_reason_name(copy.reason)).key("bytes");
      copy.known_bytes ? json_.value(copy.bytes) : json_.null();
      index("copy", copy.copy);
      json_.end('}');
    });
    json_.key("cut");
    if (plan_.cut.nodes == 0 && plan_.cut.reasons.empty()) {
      json_.null();
    } else {
      json_.begin('{').list("reasons", plan_.cut.reasons, [&](const PlanReport::Cut::Reason& reason) {
        json_.begin('{').member("node", reason.node).key("value");
        reason.value.empty() ? json_.null() : json_.value(reason.value);
        json_.member("text", reason.to_string()).end('}');
      });
      tensors("values", plan_.cut.values);
      json_.member("nodes", plan_.cut.nodes).end('}');
    }
    return json_.end('}').take();
  }

 private:
  // Null for what is not there.
  void index(std::string_view name, int32_t number) {
    json_.key(name);
    number >= 0 ? json_.value(number) : json_.null();
  }

  void put(const PlanReport::Location& location) {
    json_.begin('{').member("kind", kind_name(location.kind));
    if (location.kind != PlanReport::Location::Kind::kAbsent) {
      if (location.index >= 0) json_.member("index", location.index);
      if (!location.name.empty()) json_.member("name", location.name);
      json_.member("space", location.space).member("offset_bytes", location.offset_bytes);
    }
    json_.member("text", location.to_string()).end('}');
  }

  void put(const PlanReport::Tensor& tensor) {
    json_.begin('{').member("name", tensor.name);
    if (tensor.type == DataType::kUndefined) {
      json_.key("dtype").null();
    } else {
      json_.member("dtype", data_type_name(tensor.type));
    }
    json_.key("shape");
    if (tensor.has_shape) {
      json_.begin('[');
      for (const int64_t dim : tensor.dims) dim >= 0 ? json_.value(dim) : json_.null();
      json_.end(']');
    } else {
      json_.null();
    }
    json_.member("layout", tensor.blocked8 ? "blocked8" : "plain").member("bytes", tensor.size_bytes);
    if (tensor.planned_for_value) json_.member("planned_for_value", true);
    json_.key("location");
    put(tensor.location);
    json_.end('}');
  }

  void tensors(std::string_view name, const std::vector<PlanReport::Tensor>& list) {
    json_.list(name, list, [&](const PlanReport::Tensor& tensor) { put(tensor); });
  }

  void put(const PlanReport::Step& step) {
    json_.begin('{').member("label", step.label).member("name", step.name).member("op_type", step.op_type);
    json_.member("domain", step.domain).member("node", step.node).strings("model_nodes", step.model_nodes);
    json_.key("region");
    if (step.region.empty()) {
      json_.null();
    } else {
      json_.begin('{').list("nodes", step.region, [&](const PlanReport::RegionNode& node) {
        json_.begin('{').member("name", node.name).member("op_type", node.op_type).member("domain", node.domain);
        json_.end('}');
      });
      json_.end('}');
    }
    json_.member("kernel", step.kernel).member("ep", step.ep).member("stream", step.stream);
    json_.list("waits", step.waits, [&](const PlanReport::Wait& wait) {
      json_.begin('{')
          .member("stream", wait.stream)
          .member("point", wait.point)
          .member("on_host", wait.on_host)
          .end('}');
    });
    index("point", step.point);
    tensors("inputs", step.inputs);
    tensors("outputs", step.outputs);
    json_.key("scratch");
    if (step.scratch_bytes > 0) {
      json_.begin('{').member("bytes", step.scratch_bytes).key("location");
      put(step.scratch);
      json_.end('}');
    } else {
      json_.null();
    }
    index("in_place_input", step.in_place_input);
    index("copy", step.copy);
    json_.member("runs", step.runs).key("time_ns");
    step.runs > 0 ? json_.value(step.time_ns) : json_.null();
    json_.end('}');
  }

  void put(const PlanReport::ModelNode& node) {
    json_.begin('{').member("label", node.label).member("name", node.name).member("op_type", node.op_type);
    json_.member("domain", node.domain).member("fate", fate_name(node.fate));
    index("step", node.step);
    index("ep", node.ep);
    json_.strings("passes", node.passes).member("text", node.fate_text()).end('}');
  }

  void put(const CopyRecord& copy) {
    json_.begin('{').member("what", copy.what).member("bytes", copy.bytes).member("from", copy.source.to_string());
    json_.member("to", copy.target.to_string()).member("reason", copy_reason_name(copy.reason));
    json_.member("once", copy.once).end('}');
  }

  const PlanReport& plan_;
  JsonText json_;
};

}  // namespace

std::string PlanReport::to_json() const { return PlanWriter(*this).write(); }

}  // namespace tenon
