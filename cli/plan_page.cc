#include "cli/plan_page.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace tenon::cli {

extern const char* const kPlanPage;  // cli/plan_page.html

std::string plan_page(const std::string& model, const PlanReport& plan) {
  const std::string name = nlohmann::json(model).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // "<" is in strings alone. As an escape it can neither end the script element that holds the JSON nor begin a
  // comment.
  std::string data;
  for (const char c : "{\"model\":" + name + ",\"plan\":" + plan.to_json() + "}") {
    if (c == '<')
      data += "\\u003c";
    else
      data += c;
  }
  std::string page = kPlanPage;
  constexpr std::string_view kHole = "@PLAN@";
  page.replace(page.find(kHole), kHole.size(), data);
  return page;
}

}  // namespace tenon::cli
