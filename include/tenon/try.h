// Macros that return a failed Status or Result from the function around them, which returns one of the two itself.
//
//   tenon::Result<tenon::Tensor> first_output(const std::string& path, const tenon::Tensor& x) {
//     TENON_TRY_ASSIGN(auto session, tenon::Session::load(path));
//     TENON_TRY_ASSIGN(auto binding, session->make_binding());
//     TENON_TRY(binding.bind_input(0, x));
//     TENON_TRY_WITH_CONTEXT(session->run(binding), "while running \"" + path + "\"");
//     return binding.output(0);
//   }
#pragma once

#include <utility>

#include "tenon/status.h"

#define TENON_CONCAT_INNER_(a, b) a##b
#define TENON_CONCAT_(a, b) TENON_CONCAT_INNER_(a, b)

// Returns the Status of `expr` if it failed.
#define TENON_TRY(expr)                                                                                \
  do {                                                                                                 \
    if (::tenon::Status tenon_try_status_ = (expr); !tenon_try_status_.ok()) return tenon_try_status_; \
  } while (false)

// The same, with `context`, a sentence part such as "while reading node 3", added (Status::with_context). The context
// is computed on failure alone.
#define TENON_TRY_WITH_CONTEXT(expr, context)                                \
  do {                                                                       \
    if (::tenon::Status tenon_try_status_ = (expr); !tenon_try_status_.ok()) \
      return std::move(tenon_try_status_).with_context(context);             \
  } while (false)

// Declares or assigns `decl` from the value of a Result expression, or returns its Status. Two statements: not the body
// of an `if` without braces.
#define TENON_TRY_ASSIGN(decl, expr) TENON_TRY_ASSIGN_IMPL_(TENON_CONCAT_(tenon_result_, __LINE__), decl, expr)
#define TENON_TRY_ASSIGN_IMPL_(result, decl, expr)     \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  decl = std::move(result).value()
