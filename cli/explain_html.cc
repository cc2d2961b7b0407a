#include "cli/explain_html.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/checked.h"
#include "base/format.h"
#include "cli/output.h"
#include "tenon/types.h"

namespace tenon::cli {
namespace {

constexpr double kChartWidth = 1100;
constexpr double kChartHeight = 360;

// A stretch of the arena, from the step that writes it to the last one that reads it.
struct Block {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  size_t first = 0;
  size_t last = 0;
  std::string what;
};

struct PlanLines {
  std::string headline;
  std::vector<std::string> steps;
  std::vector<std::string> copies;
  std::vector<std::string> others;  // inputs, outputs, nodes without a step, cuts
  uint64_t arena_bytes = 0;
};

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char character : text) {
    switch (character) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += character;
    }
  }
  return escaped;
}

std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

PlanLines split_lines(std::string_view plan) {
  PlanLines lines;
  while (!plan.empty()) {
    const size_t end = std::min(plan.find('\n'), plan.size());
    const std::string_view line = plan.substr(0, end);
    plan.remove_prefix(std::min(end + 1, plan.size()));
    if (line.starts_with("step ")) {
      lines.steps.emplace_back(line);
    } else if (line.starts_with("copy: ")) {
      lines.copies.emplace_back(line);
    } else if (line.starts_with("plan for ") && lines.headline.empty()) {
      lines.headline = line;
      if (const size_t at = line.find("arena "); at != std::string_view::npos) {
        std::string_view rest = line.substr(at + 6);
        lines.arena_bytes = take_number(rest).value_or(0);
      }
    } else {
      lines.others.emplace_back(line);
    }
  }
  return lines;
}

// Bytes of "float32[1,24,8,8] blocked8"; nothing when the text is no such type.
std::optional<uint64_t> bytes_of(std::string_view text) {
  const size_t bracket = text.find('[');
  if (bracket == std::string_view::npos) return std::nullopt;
  uint64_t bytes = 0;
  for (int type = 1; type <= 26; ++type)
    if (data_type_name(static_cast<DataType>(type)) == text.substr(0, bracket))
      bytes = data_type_size(static_cast<DataType>(type));
  const size_t close = text.find(']');
  const bool blocked = close != std::string_view::npos && text.substr(close).starts_with("] blocked8");
  text.remove_prefix(bracket + 1);
  std::vector<uint64_t> sizes = {bytes};
  for (int axis = 0; bytes > 0; ++axis) {
    std::optional<uint64_t> dim = take_number(text);
    if (!dim) break;
    if (blocked && axis == 1) dim = (*dim + 7) / 8 * 8;
    sizes.push_back(*dim);
    if (!text.starts_with(',')) break;
    text.remove_prefix(1);
  }
  return checked_product(sizes);
}

std::vector<Block> find_blocks(const std::vector<std::string>& steps) {
  std::vector<Block> blocks;
  for (size_t step = 0; step < steps.size(); ++step) {
    const std::string_view line = steps[step];
    const size_t arrow = line.rfind(") -> ");
    if (arrow == std::string_view::npos) continue;
    const size_t label = std::min(line.rfind("] (", arrow), arrow);
    // Reading a place extends the block that lies there now.
    for (size_t at = line.find('@', label); at < arrow; at = line.find('@', at + 1)) {
      std::string_view rest = line.substr(at + 1);
      const std::optional<uint64_t> offset = take_number(rest);
      if (!offset) continue;
      for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
        if (*offset < block->offset || *offset >= block->offset + block->bytes) continue;
        block->last = step;
        break;
      }
    }
    for (size_t at = line.find('@', arrow); at != std::string_view::npos; at = line.find('@', at + 1)) {
      std::string_view rest = line.substr(at + 1);
      const std::optional<uint64_t> offset = take_number(rest);
      if (!offset || !rest.starts_with(' ')) continue;
      rest.remove_prefix(1);
      std::optional<uint64_t> bytes = bytes_of(rest);
      if (!bytes) bytes = take_number(rest);  // scratch: "@0 4096 bytes"
      if (bytes && *bytes > 0) blocks.push_back({*offset, *bytes, step, step, steps[step]});
    }
  }
  return blocks;
}

std::string chart(const PlanLines& lines) {
  const std::vector<Block> blocks = find_blocks(lines.steps);
  uint64_t top = lines.arena_bytes;
  for (const Block& block : blocks) top = std::max(top, block.offset + block.bytes);
  if (top == 0 || lines.steps.empty()) return "<p>The plan needs no arena.</p>\n";
  const double x_scale = kChartWidth / static_cast<double>(lines.steps.size());
  const double y_scale = kChartHeight / static_cast<double>(top);
  std::string svg = tenon::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">\n", kChartWidth, kChartHeight);
  for (const Block& block : blocks) {
    svg += tenon::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"hsl({},55%,65%)\"><title>{}, bytes "
        "{} "
        "to {}</title></rect>\n",
        static_cast<double>(block.first) * x_scale,
        kChartHeight - static_cast<double>(block.offset + block.bytes) * y_scale,
        static_cast<double>(block.last - block.first + 1) * x_scale,
        std::max(0.5, static_cast<double>(block.bytes) * y_scale), block.first * 47 % 360, escape(block.what),
        block.offset, block.offset + block.bytes);
  }
  return svg + "</svg>\n";
}

std::string list(const std::vector<std::string>& lines) {
  std::string html = "<ol start=\"0\">\n";
  for (const std::string& line : lines) html += tenon::format("<li>{}</li>\n", escape(line));
  return html + "</ol>\n";
}

constexpr const char* kStyle =
    "body{font:14px/1.5 system-ui,sans-serif;max-width:1120px;margin:2em auto;padding:0 1em;color:#222}"
    "svg{width:100%;border:1px solid #bbb;background:#fafafa}rect{stroke:#fff;stroke-width:.5}"
    "ol{font:12px/1.5 ui-monospace,monospace;overflow-wrap:anywhere}.none{color:#276221}";

}  // namespace

std::string explain_html(std::string_view model, std::string_view plan) {
  const PlanLines lines = split_lines(plan);
  std::string html = tenon::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta "
      "charset=\"utf-8\"><title>{0}</title><style>{1}</style></head><body>\n"
      "<h1>{0}</h1>\n<p>{2}</p>\n",
      escape(model), kStyle, escape(lines.headline));
  html += tenon::format(
      "<h2>Memory</h2>\n<p>The arena, {}: offsets from bottom to top, steps from left to right. Point at a block to "
      "see "
      "what writes it.</p>\n{}",
      bytes_text(lines.arena_bytes), chart(lines));
  html += "<h2>Copies</h2>\n";
  html += lines.copies.empty()
              ? std::string("<p class=\"none\">None: every input and output is used where it lies.</p>\n")
              : list(lines.copies);
  html += "<h2>Steps</h2>\n" + list(lines.steps);
  html += "<h2>Inputs, outputs and nodes without a step</h2>\n" + list(lines.others);
  return html + "</body></html>\n";
}

}  // namespace tenon::cli
