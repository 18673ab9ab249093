// What every call of the C interface does: an error becomes a status and the thread's sentence, and structs of older
// and newer programs are read and written.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/errors.h"
#include "convoy.h"
#include "convoy/result.h"

namespace convoy::capi {

// The status of an error, whose message becomes the thread's last one.
convoy_status fail(const Error& error);
const char* last_error();

Result<void> present(const void* pointer, const char* name);  // an error where it is null
// An error where `index` is not one of `count` things, "outputs".
Result<void> in_range(std::size_t index, std::size_t count, const char* what);

std::string lines(const std::vector<std::string>& texts);  // a line each, without a last newline

// An enumerator that a C program gives, which may be none of C++'s: to load it as one would be undefined.
template <class Enum>
int number_of(const Enum& given) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &given, sizeof number);
  return number;
}

// Runs `body`, which returns Result<void>. Nothing is thrown into C: only allocations can throw here.
template <class Body>
convoy_status guarded(Body body) {
  try {
    const Result<void> done = body();
    return done ? CONVOY_OK : fail(done.error());
  } catch (const std::bad_alloc&) {
    return fail({ErrorCode::out_of_memory, "out of memory"});
  } catch (const std::exception& e) {
    return fail({ErrorCode::internal, e.what()});
  }
}

// A caller's struct, which may be of an older or newer library: its `size` bytes over our defaults.
template <class Struct>
Result<Struct> read_struct(const Struct* given, const Struct& defaults, const char* name) {
  Struct copy = defaults;
  if (given == nullptr) return copy;
  if (given->size < sizeof(std::size_t) || given->size > 16 * sizeof(Struct)) {
    return invalid(fmt::format("{}->size={} is not the size of a {} (use its _INIT)", name, given->size, name));
  }
  std::memcpy(&copy, given, std::min(given->size, sizeof(Struct)));
  copy.size = sizeof(Struct);
  return copy;
}

// The other way: only the bytes that the caller has room for.
template <class Struct>
Result<void> write_struct(Struct* given, Struct filled, const char* name) {
  CONVOY_TRY([[maybe_unused]] const Struct checked, read_struct(given, filled, name));
  filled.size = given->size;
  std::memcpy(given, &filled, std::min(given->size, sizeof(Struct)));
  return {};
}

}  // namespace convoy::capi
