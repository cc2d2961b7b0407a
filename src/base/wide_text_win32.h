// Converts between UTF-8 paths and the UTF-16 that Windows' functions take.
#pragma once

#include <windows.h>

#include <string>

namespace tenon {

inline std::wstring wide_text(const std::string& text) {
  std::wstring wide(text.size() + 1, L'\0');
  const int length = ::MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), wide.data(),
                                           static_cast<int>(wide.size()));
  wide.resize(length);
  return wide;
}

inline std::string narrow_text(const std::wstring& wide) {
  std::string text(3 * wide.size() + 1, '\0');
  const int length = ::WideCharToMultiByte(CP_UTF8, 0, wide.data(), static_cast<int>(wide.size()), text.data(),
                                           static_cast<int>(text.size()), nullptr, nullptr);
  text.resize(length);
  return text;
}

}  // namespace tenon
