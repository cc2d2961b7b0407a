// Renders a plan as one HTML page: figures, the arena over the steps, copies, steps.
#pragma once

#include <string>
#include <string_view>

namespace tenon::cli {

// `plan` is what Session::explain prints. The page needs nothing else: no script, no other file.
std::string explain_html(std::string_view model, std::string_view plan);

}  // namespace tenon::cli
