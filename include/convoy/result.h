// Result<T>: a value, or an Error that a person can act on. Convoy never throws across its API, prints or aborts.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "convoy/cxx20.h"

namespace convoy {

// What kind of thing went wrong. The command maps these to its exit codes.
enum class ErrorCode {
  invalid_argument,  // the caller's input is wrong; the message names the field and the values (exit code 2)
  not_found,         // a file, a name or a library is not there (exit code 2)
  corrupt,        // a file is truncated, malformed or hostile; the message names the byte, tensor or node (exit code 2)
  unsupported,    // the request is well-formed and nothing here can run it (exit code 4)
  out_of_memory,  // an allocation failed or would exceed a limit (exit code 1)
  wrong_result,   // a verified result was outside its tolerance (exit code 3)
  internal,       // Convoy's own bug (exit code 1)
  device_failed,  // a device or its driver failed: a lost GPU, a launch that went wrong (exit code 1)
};

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;

  // The same error with `prefix: ` in front: each layer adds where it was ("node 'conv1': ...").
  Error within(const std::string& prefix) const { return {code, prefix + ": " + message}; }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  template <class U>
  requires(!std::is_same_v<std::remove_cvref_t<U>, Result> && std::is_convertible_v<U, T> &&
           !std::is_same_v<std::remove_cvref_t<U>, T> && !std::is_same_v<std::remove_cvref_t<U>, Error>)
      Result(U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Precondition: ok().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Precondition: !ok().
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace convoy

// Evaluate a Result; return its error from the enclosing function, or bind its value.
#define CONVOY_CONCAT_INNER(a, b) a##b
#define CONVOY_CONCAT(a, b) CONVOY_CONCAT_INNER(a, b)
#define CONVOY_TRY(declaration, expression) \
  CONVOY_TRY_IMPL(CONVOY_CONCAT(convoy_try_, __LINE__), declaration, expression)
#define CONVOY_TRY_IMPL(tmp, declaration, expression) \
  auto tmp = (expression);                            \
  if (!tmp.ok()) return tmp.error();                  \
  declaration = std::move(*tmp)
#define CONVOY_CHECK(expression)                                                              \
  do {                                                                                        \
    if (auto convoy_check_ = (expression); !convoy_check_.ok()) return convoy_check_.error(); \
  } while (false)
