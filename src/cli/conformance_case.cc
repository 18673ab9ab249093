#include "cli/conformance_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>

#include "core/file_signature.h"
#include "io/file.h"
#include "network/graph/onnx/tensor_proto.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// prefix_0.pb, prefix_1.pb ... as far as they go.
Result<std::vector<HostTensor>> read_tensors(const fs::path& folder, const std::string& prefix) {
  std::vector<HostTensor> tensors;
  for (int k = 0;; ++k) {
    const fs::path path = folder / fmt::format("{}_{}.pb", prefix, k);
    if (!is_there(path)) return tensors;
    CONVOY_TRY(auto named, onnx_io::read_tensor_file(path));
    tensors.push_back(std::move(named.tensor));
  }
}

std::vector<fs::path> data_sets(const fs::path& folder) {
  std::vector<fs::path> sets;
  for (int n = 0; is_there(folder / fmt::format("test_data_set_{}", n)); ++n) {
    sets.push_back(folder / fmt::format("test_data_set_{}", n));
  }
  return sets;
}

// Whether one of these is in the names of a model's operators, which are plain text in the file.
bool mentions(const fs::path& model, std::initializer_list<std::string_view> names) {
  const auto bytes = io::read_file(model);
  if (!bytes.ok()) return false;
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return std::ranges::any_of(names, [&](std::string_view name) { return text.find(name) != std::string_view::npos; });
}

CaseResult from_error(const Error& error, const std::string& where) {
  return {error.code == ErrorCode::unsupported ? CaseStatus::unsupported : CaseStatus::failed,
          (where.empty() ? "" : where + ": ") + error.message};
}

}  // namespace

std::string_view name_of(CaseStatus status) {
  return status == CaseStatus::passed ? "passed" : status == CaseStatus::failed ? "failed" : "unsupported";
}

Comparison compare_outputs(const HostTensor& actual, const HostTensor& expected, int node_count, bool quantized,
                           const Tolerances& tolerances) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Comparison result;
  const auto fault = [&](std::string reason) {
    result.ok = false;
    result.reason = std::move(reason);
    result.max_error = result.max_tolerances = kInfinity;
    return result;
  };
  const DataType type = expected.desc.type;
  if (actual.desc.type != type) {
    return fault(fmt::format("type is {}, expected {}", convoy::name_of(actual.desc.type), convoy::name_of(type)));
  }
  if (actual.desc.dims != expected.desc.dims) {
    return fault(fmt::format("shape is {}, expected {}", to_string(actual.desc.dims), to_string(expected.desc.dims)));
  }
  const std::int64_t count = expected.desc.elements();
  double relative = 0, absolute = 0;
  if (is_floating(type)) {
    const bool wide = type == DataType::f32 || type == DataType::f64;
    relative = wide ? 1e-3 : 1e-2;
    absolute = wide ? 1e-7 : 1e-3;
    double largest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double v = std::abs(load_as_double(type, expected.data.get(), i));
      if (std::isfinite(v)) largest = std::max(largest, v);
    }
    // What is 0 by cancellation, as a Gelu's tail, is a few roundings of the largest: in f32 four are never too many.
    constexpr double kCancelled = 1e-6, kMostCancelled = 2e-5, kFourRoundings = 0x1p-22;
    const double most = std::max(kMostCancelled, type == DataType::f32 ? kFourRoundings * largest : 0);
    absolute = std::max(absolute, node_count > 10 ? 1e-5 * largest : std::min(kCancelled * largest, most));
    relative = tolerances.relative.value_or(relative);
    absolute = tolerances.absolute.value_or(absolute);
  } else if (quantized && is_integer(type) && size_of(type) <= 2) {
    absolute = 1;
  }
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double a = load_as_double(type, actual.data.get(), i), e = load_as_double(type, expected.data.get(), i);
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    const double error = std::isfinite(a) && std::isfinite(e) ? std::abs(a - e) : kInfinity;
    const double allowed = absolute + relative * std::abs(e);
    const double in_tolerances = std::isinf(error) || allowed == 0 ? kInfinity : error / allowed;
    result.max_error = std::max(result.max_error, error);
    result.max_tolerances = std::max(result.max_tolerances, in_tolerances);
    if (in_tolerances <= 1) continue;
    if (wrong++ == 0) result.reason = fmt::format("element {} is {:.9g}, expected {:.9g}", i, a, e);
  }
  result.ok = wrong == 0;
  if (wrong > 1) result.reason += fmt::format(" (and {} more of {})", wrong - 1, count);
  return result;
}

CaseResult run_case(const std::string& folder, const NetworkOptions& options, Tolerances tolerances) {
  const fs::path root(folder);
  const auto network = Network::load(root / "model.onnx");
  if (!network.ok()) return from_error(network.error(), "");
  const std::vector<fs::path> sets = data_sets(root);
  if (sets.empty()) return {CaseStatus::failed, "there is no test_data_set_0"};
  const bool quantized = mentions(root / "model.onnx", {"QuantizeLinear", "QLinear"});
  // Sums over whole signals, in f32 by most libraries.
  constexpr double kTransformed = 2e-5;
  if (mentions(root / "model.onnx", {"DFT", "STFT"}) && !tolerances.absolute) tolerances.absolute = kTransformed;

  CaseResult result;
  result.status = CaseStatus::passed;
  result.max_error = result.max_tolerances = 0;
  std::unique_ptr<Session> session;
  std::vector<TensorDesc> prepared;
  for (const fs::path& set : sets) {
    const std::string where = set.filename();
    const auto inputs = read_tensors(set, "input");
    if (!inputs.ok()) return from_error(inputs.error(), where);
    const auto expected = read_tensors(set, "output");
    if (!expected.ok()) return from_error(expected.error(), where);
    const std::size_t wanted = (*network)->inputs().size();
    if (inputs->size() != wanted) {
      return {CaseStatus::failed, fmt::format("{}: {} inputs for a model with {}", where, inputs->size(), wanted)};
    }
    std::vector<TensorDesc> descs;
    for (const HostTensor& input : *inputs) descs.push_back(input.desc);
    if (session == nullptr || descs != prepared) {
      auto made = (*network)->prepare(descs, options);
      if (!made.ok()) return from_error(made.error(), where);
      session = std::move(*made);
      prepared = descs;
      for (const NetworkStep& step : session->steps()) {
        if (options.cuda && step.device == "cpu") result.on_processor.insert(step.implementation);
      }
    }
    const auto outputs = session->run(*inputs);
    if (!outputs.ok()) return from_error(outputs.error(), where);
    if (outputs->size() != expected->size()) {
      return {CaseStatus::failed, fmt::format("{}: {} outputs, expected {}", where, outputs->size(), expected->size())};
    }
    for (std::size_t k = 0; k < expected->size(); ++k) {
      const Comparison c =
          compare_outputs((*outputs)[k], (*expected)[k], (*network)->node_count(), quantized, tolerances);
      result.max_error = std::max(result.max_error, c.max_error);
      result.max_tolerances = std::max(result.max_tolerances, c.max_tolerances);
      if (c.ok || result.status == CaseStatus::failed) continue;
      result.status = CaseStatus::failed;
      result.reason = fmt::format("{}: output '{}': {}", where, (*network)->outputs()[k].name, c.reason);
    }
  }
  return result;
}

Result<std::vector<CaseFolder>> find_cases(const std::string& root) {
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    if (!fs::exists(root, error)) return Error{ErrorCode::not_found, fmt::format("{}: there is no such folder", root)};
    std::array<char, kSignatureBytes> first;
    std::ifstream file(root, std::ios::binary);
    file.read(first.data(), first.size());
    const std::string is =
        file_signature(std::as_bytes(std::span(first.data(), static_cast<std::size_t>(file.gcount()))));
    return Error{ErrorCode::not_found,
                 fmt::format("{}: not a folder{}; a case is a folder of model.onnx and test_data_set_0", root,
                             is.empty() ? "" : " but " + is)};
  }
  std::vector<CaseFolder> cases;
  const auto add = [&](const fs::path& folder) {
    if (!is_there(folder / "model.onnx")) return;
    const fs::path name = fs::path(folder).lexically_relative(root);
    cases.push_back({name == "." ? fs::path(folder).lexically_normal().filename().string() : name.string(), folder});
  };
  add(root);
  fs::recursive_directory_iterator walk(root, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && walk != end; walk.increment(error)) {
    if (walk->is_directory(error)) add(walk->path());
  }
  if (error) return Error{ErrorCode::invalid_argument, fmt::format("{}: {}", root, error.message())};
  std::sort(cases.begin(), cases.end(), [](const CaseFolder& a, const CaseFolder& b) { return a.path < b.path; });
  return cases;
}

}  // namespace convoy::cli
