#include "cli/target.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/installed.h"
#include "core/file_signature.h"
#include "core/nearest.h"
#include "core/text.h"
#include "device/cuda/cudnn.h"
#include "io/file.h"
#include "network/cost/step_problem.h"
#include "report/record.h"

namespace convoy::cli {
namespace {

bool is_problem_string(const std::string& text) {
  for (const Pass pass : {Pass::fprop, Pass::dgrad, Pass::wgrad}) {
    if (text.starts_with(fmt::format("{}:", name_of(pass)))) return true;
  }
  return false;
}

// A problem list is text; an ONNX file is a protobuf, which has control bytes near its start.
bool looks_like_text(io::Bytes bytes) {
  const auto head = bytes.first(std::min<std::size_t>(bytes.size(), 512));
  return std::all_of(head.begin(), head.end(), [](std::byte b) {
    const auto c = static_cast<unsigned char>(b);
    return c >= 32 || c == '\n' || c == '\t' || c == '\r';
  });
}

// What is no file may be a network of the zoo without its "zoo:".
Error no_file(const std::string& text, Error error) {
  if (error.code != ErrorCode::not_found || text.find('/') != std::string::npos) return error;
  std::vector<std::string> networks;
  for (const std::string& name : zoo_names()) networks.push_back("zoo:" + name);
  error.message += did_you_mean(text, networks);
  return error;
}

Result<Target> opened(const std::string& text) {
  Target target;
  target.name = text;
  if (text.starts_with("zoo:")) {
    CONVOY_TRY(target.network, Network::load(text));
    return target;
  }
  if (is_problem_string(text)) {
    CONVOY_TRY(ConvProblem problem, parse_problem(text));
    CONVOY_CHECK(validate(problem));
    target.problems.push_back({1, std::move(problem), "", 0});
    return target;
  }
  if (network::is_step_string(text)) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}: an operator or a conversion; convoy bench times these, "
                                                          "this command takes convolutions (fprop:, dgrad:, wgrad:)",
                                                          convoy::quoted(text))};
  }
  const std::string path = installed_or_here(text);
  const auto bytes = io::read_file(path);
  if (!bytes.ok()) return no_file(text, bytes.error());
  if (io::lower_extension(path) != "onnx" && looks_like_text(*bytes)) {
    std::string_view lines(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    std::string list;
    if (report::is_record(lines)) {
      CONVOY_TRY(target.record, report::parse_record(lines, path));
      // An engine's index means something for one version of cuDNN only: the program's.
      cuda::prefer_cudnn(path, target.record->cudnn_file);
      lines = list = report::problem_list(*target.record);
    }
    auto problems = parse_problem_list(lines, path);
    if (const std::string is = problems.ok() ? "" : file_signature(*bytes); !is.empty()) {
      return Error{ErrorCode::corrupt,
                   fmt::format("{}: neither an ONNX model nor a list of problems but {}", path, is)};
    }
    CONVOY_TRY(target.problems, std::move(problems));
  } else {
    CONVOY_TRY(target.network, Network::load(path));
  }
  return target;
}

}  // namespace

Result<Target> open_target(const std::string& text, const std::vector<std::string>& dim_flags) {
  CONVOY_TRY(Target target, opened(text));
  if (target.network == nullptr && !dim_flags.empty()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--dim {}: it is for networks; a problem's string has its sizes", dim_flags.front())};
  }
  return target;
}

Result<std::unique_ptr<Network>> open_network(const std::string& text) {
  CONVOY_TRY(Target target, open_target(text));
  if (target.network == nullptr) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{}: a network is needed here (an ONNX file or zoo:NAME); convoy bench and convoy explain "
                             "take problems",
                             convoy::quoted(text))};
  }
  return std::move(target.network);
}

Result<ConvProblem> with_data_type(ConvProblem problem, DataType type) {
  const bool integer = type == DataType::s8 || type == DataType::u8;
  if (is_stored_only(type) || (!is_floating(type) && !integer)) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--dtype {}: convolutions are of f64, f32, f16, bf16, f8_e4m3, f8_e5m2, s8 or u8",
                             convoy::name_of(type))};
  }
  const auto retype = [](TensorDesc& desc, DataType to) { desc.type = to; };
  retype(problem.x, type);
  retype(problem.w, integer ? DataType::s8 : type);
  retype(problem.y, integer ? DataType::s32 : type);
  problem.compute = integer ? DataType::s32 : type == DataType::f64 ? DataType::f64 : DataType::f32;
  if (integer) {
    problem.epilogue = {};
    problem.alpha = 1;
    problem.beta = 0;
  }
  if (!integer) {
    problem.x_zero_point = problem.w_zero_point = problem.y_zero_point = 0;
    problem.x_zero_given = problem.w_zero_given = false;
    problem.epilogue.requantize = Requantize::none;
    problem.epilogue.residual.reset();
  }
  if (auto valid = validate(problem); !valid.ok()) {
    return valid.error().within(fmt::format("--dtype {}", convoy::name_of(type)));
  }
  return problem;
}

ConvProblem with_pass(ConvProblem problem, Pass pass) {
  if (problem.pass == pass) return problem;
  problem.pass = pass;
  problem.epilogue = {};
  problem.alpha = 1;
  problem.beta = 0;
  return problem;
}

}  // namespace convoy::cli
