// oneDNN's interface, in C++, over the oneDNN that the process uses: the one that it is linked with, or the 3.x that
// CONVOY_ONEDNN names. To be included instead of oneDNN's own headers, which would call the linked one.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include "base/shared_library.h"

namespace convoy::onednn {

// Which it is, and why one that CONVOY_ONEDNN names was not taken. Found once, at the first use.
const LibraryReport& library();
// Whether it is the one whose version, 3.2, the build was made and looked at with.
bool is_linked_library();

// A function of it; null: the linked one's.
void* function_of_library(const char* name);

template <auto linked>
auto bound(const char* name) {
  static const auto function = [&] {
    void* const other = function_of_library(name);
    return other == nullptr ? linked : reinterpret_cast<decltype(linked)>(other);
  }();
  return function;
}

}  // namespace convoy::onednn

#define CONVOY_ONEDNN_BOUND(name) (::convoy::onednn::bound<&::name>(#name))
#include <onednn_functions.h>  // made by cmake/dependencies.cmake

#include <oneapi/dnnl/dnnl.hpp>
