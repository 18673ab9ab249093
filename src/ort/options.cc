#include "ort/options.h"

#include <charconv>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

#include "ort/wire.h"

namespace convoy::ort {
namespace {

Error bad(const std::string& name, const std::string& value, const std::string& wanted) {
  return {ErrorCode::invalid_argument, "option " + name + "='" + value + "': " + wanted};
}

template <class T>
Result<T> number(const std::string& name, const std::string& value, T least, const std::string& wanted) {
  T read{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), read);
  if (error != std::errc() || end != value.data() + value.size() || read < least) return bad(name, value, wanted);
  return read;
}

Result<bool> flag(const std::string& name, const std::string& value) {
  if (value == "1" || value == "true") return true;
  if (value == "0" || value == "false") return false;
  return bad(name, value, "0 or 1 is wanted");
}

Result<bool> choice(const std::string& name, const std::string& value, const std::string& no, const std::string& yes) {
  if (value == yes) return true;
  if (value == no) return false;
  return bad(name, value, no + " or " + yes + " is wanted");
}

Result<std::string> content(const std::string& name, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return bad(name, path, "cannot be opened");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

using Read = std::function<Result<void>(const std::string& name, const std::string& value)>;

Read text(std::string& into) {
  return [&into](const std::string&, const std::string& value) -> Result<void> {
    into = value;
    return {};
  };
}

Read file(std::string& into) {
  return [&into](const std::string& name, const std::string& value) -> Result<void> {
    CONVOY_TRY(into, content(name, value));
    return {};
  };
}

template <class T>
Read count(T& into, int least) {
  return [&into, least](const std::string& name, const std::string& value) -> Result<void> {
    CONVOY_TRY(into, number(name, value, T(least), "a number is wanted, of at least " + std::to_string(least)));
    return {};
  };
}

Read either(bool& into, const std::string& no, const std::string& yes) {
  return [&into, no, yes](const std::string& name, const std::string& value) -> Result<void> {
    CONVOY_TRY(into, choice(name, value, no, yes));
    return {};
  };
}

// Of each option by its name.
std::map<std::string, Read> readers_of(ProviderOptions& options) {
  return {
      {"threads", count(options.threads, 0)},
      {"thread_pool", either(options.on_runtimes_threads, "convoy", "onnxruntime")},
      {"claim", either(options.convolutions_only, "all", "convolutions")},
      {"max_shapes", count(options.max_shapes, 1)},
      {"tune_seconds", count(options.tune_seconds, 0)},
      {"engines", text(options.engines)},
      {"rules", file(options.rules)},
      {"plan", file(options.plan)},
      {"database", text(options.database)},
      {"how", text(options.how)},
      {"precision", text(options.precision)},
      {"max_error",
       [&options](const std::string& name, const std::string& value) -> Result<void> {
         CONVOY_TRY(options.max_error, number(name, value, 0.0, "a number is wanted, of at least 0"));
         return {};
       }},
      {"math", text(options.math)},
      {"objective", text(options.objective)},
      {"activation_limit", count(options.activation_limit, 0)},
      {"weight_limit", count(options.weight_limit, 0)},
      {"deterministic",
       [&options](const std::string& name, const std::string& value) -> Result<void> {
         CONVOY_TRY(options.deterministic, flag(name, value));
         return {};
       }},
  };
}

}  // namespace

Result<ProviderOptions> read_options(const std::map<std::string, std::string>& configuration,
                                     const std::string& prefix) {
  ProviderOptions options;
  const auto entry = [&](const std::string& name) {
    const auto found = configuration.find(name);
    return found == configuration.end() ? std::string() : found->second;
  };
  options.context = {.write = entry("ep.context_enable") == "1",
                     .embed = entry("ep.context_embed_mode") == "1",
                     .path = entry("ep.context_file_path")};
  const std::map<std::string, Read> readers = readers_of(options);
  for (const auto& [key, value] : configuration) {
    if (!key.starts_with(prefix)) continue;
    const std::string name = key.substr(prefix.size());
    const auto reader = readers.find(name);
    if (reader == readers.end()) {
      std::string known;
      for (const auto& each : readers) known += (known.empty() ? "" : ", ") + each.first;
      return Error{ErrorCode::invalid_argument, ("there is no option '" + name + "'; there are ").append(known)};
    }
    CONVOY_CHECK(reader->second(name, value));
  }
  if (options.max_error && (options.precision.empty() || options.precision == "f32")) {
    return bad("max_error", "", "it needs precision=bf16, f16 or tf32");
  }
  // oneDNN has threads of its own, OpenMP's.
  if (options.on_runtimes_threads) options.engines = (options.engines.empty() ? "*" : options.engines) + ",!onednn.*";
  return options;
}

Result<void> check_options(const ProviderOptions& options) {
  // A model of one Relu, in onnx.proto's fields: no network is less to prepare.
  const auto value = [](const char* name) {
    const Message dims = Message().message(1, Message().number(1, 1)).message(1, Message().number(1, 1));
    return Message().text(1, name).message(2, Message().message(1, Message().number(1, 1).message(2, dims)));
  };
  const Message node = Message().text(1, "x").text(2, "y").text(4, "Relu");
  const Message graph = Message().message(1, node).text(2, "relu").message(11, value("x")).message(12, value("y"));
  const Message model = Message().number(1, 8).message(7, graph).message(8, Message().number(2, 13));
  convoy_network* network = nullptr;
  CONVOY_CHECK(done(convoy_network_parse(model.bytes().data(), model.bytes().size(), nullptr, &network)));
  const std::unique_ptr<convoy_network, decltype(&convoy_network_destroy)> owned(network, convoy_network_destroy);
  convoy_options given = convoy_options_of(options);
  given.plan = nullptr;
  given.budget_seconds = 0;
  convoy_session* session = nullptr;
  const auto made = done(convoy_session_create(network, nullptr, 0, &given, &session));
  convoy_session_destroy(session);
  const bool wrong = !made.ok() && made.error().code == ErrorCode::invalid_argument;
  return wrong ? made : Result<void>();
}

convoy_options convoy_options_of(const ProviderOptions& options) {
  const auto given = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
  convoy_options made = CONVOY_OPTIONS_INIT;
  made.device = given(options.device);
  made.threads = options.threads;
  made.engines = given(options.engines);
  made.rules = given(options.rules);
  made.plan = given(options.plan);
  made.database = given(options.database);
  made.how = given(options.how);
  made.precision = given(options.precision);
  made.math = given(options.math);
  made.objective = given(options.objective);
  made.activation_limit = options.activation_limit;
  made.weight_limit = options.weight_limit;
  made.deterministic_only = options.deterministic;
  made.budget_seconds = options.tune_seconds;
  return made;
}

}  // namespace convoy::ort
