#include "ops/operator.h"

#include <fmt/format.h>

namespace convoy::ops {
namespace {

constexpr const char* kAttributeKinds[] = {"an integer",   "a real number", "a string", "integers",
                                           "real numbers", "strings",       "a tensor"};

template <class T>
Result<T> get(const NodeDesc& node, std::string_view name, T fallback) {
  const auto found = node.attributes.find(std::string(name));
  if (found == node.attributes.end()) return fallback;
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  return Error{ErrorCode::invalid_argument,
               fmt::format("{}: attribute '{}' is given as {}, it must be {}", node.op, name,
                           kAttributeKinds[found->second.index()], kAttributeKinds[Attribute(T{}).index()])};
}

}  // namespace

Result<std::int64_t> NodeDesc::integer(std::string_view attribute, std::int64_t fallback) const {
  return get<std::int64_t>(*this, attribute, fallback);
}

Result<double> NodeDesc::real(std::string_view attribute, double fallback) const {
  return get<double>(*this, attribute, fallback);
}

Result<std::string> NodeDesc::text(std::string_view attribute, std::string_view fallback) const {
  return get<std::string>(*this, attribute, std::string(fallback));
}

Result<std::vector<std::int64_t>> NodeDesc::integers(std::string_view attribute,
                                                     std::vector<std::int64_t> fallback) const {
  return get<std::vector<std::int64_t>>(*this, attribute, std::move(fallback));
}

Result<std::vector<double>> NodeDesc::reals(std::string_view attribute, std::vector<double> fallback) const {
  return get<std::vector<double>>(*this, attribute, std::move(fallback));
}

}  // namespace convoy::ops
