// A plan as one page without other files: its graph by memory space, its copies, its arenas and a table of its steps.
#pragma once

#include <tenon/plan_report.h>

#include <string>

namespace tenon::cli {

// cli/plan_page.html with the report as JSON in it; the page's script draws it. Nothing of the model becomes markup.
std::string plan_page(const std::string& model, const PlanReport& plan);

}  // namespace tenon::cli
