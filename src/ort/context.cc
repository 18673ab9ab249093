#include "ort/context.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "ort/provider.h"

namespace convoy::ort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSignature = "convoy-context 1";
constexpr std::size_t kAlignment = 64;

Error bad(std::string message) { return {ErrorCode::invalid_argument, "EPContext: " + std::move(message)}; }

std::size_t aligned(std::size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

// A line for each part, with the bytes it has; the plan and the model follow them, and the weights' values at multiples
// of 64, in the order of their lines.
std::string head_of(const GraphModel& model, const std::string& plan) {
  std::ostringstream head;
  head << kSignature << "\nfixed " << (model.fixed ? 1 : 0) << "\nplan " << plan.size() << "\nmodel "
       << model.onnx.size() << "\nweights " << model.weights.initializers.size() << '\n';
  for (const convoy_initializer& each : model.weights.initializers) {
    const std::string_view name = each.name;
    head << each.bytes << ' ' << name.size() << ' ' << name << '\n';
  }
  head << plan << model.onnx;
  return head.str();
}

void write(std::ostream& out, const GraphModel& model, const std::string& plan) {
  const std::string head = head_of(model, plan);
  out.write(head.data(), static_cast<std::streamsize>(head.size()));
  std::size_t at = head.size();
  constexpr char kZeros[kAlignment] = {};
  for (const convoy_initializer& each : model.weights.initializers) {
    out.write(kZeros, static_cast<std::streamsize>(aligned(at) - at));
    out.write(static_cast<const char*>(each.data), static_cast<std::streamsize>(each.bytes));
    at = aligned(at) + static_cast<std::size_t>(each.bytes);
  }
}

class Reader {
 public:
  explicit Reader(std::string_view all) : all_(all) {}

  // Up to, and without, `end`; nothing: it doesn't come.
  std::optional<std::string_view> until(char end) {
    const std::size_t found = all_.find(end, at_);
    if (found == std::string_view::npos) return std::nullopt;
    const std::string_view text = all_.substr(at_, found - at_);
    at_ = found + 1;
    return text;
  }
  std::optional<std::string_view> take(std::size_t bytes) {
    if (bytes > all_.size() - at_) return std::nullopt;
    at_ += bytes;
    return all_.substr(at_ - bytes, bytes);
  }
  std::optional<std::size_t> number(char end, std::string_view name = "") {
    const auto text = until(end);
    if (!text || !text->starts_with(name)) return std::nullopt;
    std::size_t value = 0;
    const auto [last, error] = std::from_chars(text->data() + name.size(), text->data() + text->size(), value);
    return error == std::errc() && last == text->data() + text->size() ? std::optional(value) : std::nullopt;
  }
  bool align() { return take(aligned(at_) - at_).has_value(); }

 private:
  std::string_view all_;
  std::size_t at_ = 0;
};

Result<GraphModel> parse(std::string_view content, std::shared_ptr<void> memory) {
  Reader reader(content);
  const Error damaged = bad("not what Convoy " + std::string(convoy_version_text()) + " writes, or not all of it");
  if (reader.until('\n') != kSignature) return damaged;
  const auto fixed = reader.number('\n', "fixed "), plan_bytes = reader.number('\n', "plan "),
             model_bytes = reader.number('\n', "model "), count = reader.number('\n', "weights ");
  if (!fixed || !plan_bytes || !model_bytes || !count) return damaged;
  GraphModel model;
  model.fixed = *fixed != 0;
  std::vector<std::pair<std::string, std::size_t>> weights;  // and how many bytes
  for (std::size_t i = 0; i < *count; ++i) {
    const auto bytes = reader.number(' '), name_bytes = reader.number(' ');
    if (!bytes || !name_bytes) return damaged;
    const auto name = reader.take(*name_bytes);
    if (!name || !reader.take(1)) return damaged;
    weights.emplace_back(*name, *bytes);
  }
  const auto plan = reader.take(*plan_bytes), onnx = reader.take(*model_bytes);
  if (!plan || !onnx) return damaged;
  model.plan = *plan;
  model.onnx = *onnx;
  model.weights.memory = std::move(memory);
  for (auto& [name, bytes] : weights) {
    if (!reader.align()) return damaged;
    const auto values = reader.take(bytes);
    if (!values) return damaged;
    model.weights.add(std::move(name), values->data(), values->size());
  }
  return model;
}

Result<GraphModel> parse_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about {};
  const bool opened = file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0;
  const auto bytes = static_cast<std::size_t>(about.st_size);
  void* const data = opened ? mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  if (file >= 0) close(file);
  if (data == MAP_FAILED) return bad("its file '" + path + "' can't be read");
  std::shared_ptr<void> memory(data, [bytes](void* mapped) { munmap(mapped, bytes); });
  return parse({static_cast<const char*>(data), bytes}, std::move(memory));
}

// Of text; nothing: the node has none of that name.
struct Text {
  std::shared_ptr<char> data;  // aligned to 64, with a 0 at its end
  std::size_t bytes = 0;
  std::string_view view() const { return {data.get(), bytes}; }
  std::string up_to_zero() const { return data == nullptr ? "" : data.get(); }
};

Result<Text> text_of(const Api& api, const OrtNode* node, const char* name) {
  const OrtOpAttr* attribute = nullptr;
  if (OrtStatus* none = api.Node_GetAttributeByName(node, name, &attribute)) api.ReleaseStatus(none);
  Text text;
  if (attribute == nullptr) return text;
  if (OrtStatus* asked = api.ReadOpAttr(attribute, kString, nullptr, 0, &text.bytes)) api.ReleaseStatus(asked);
  text.data = {static_cast<char*>(std::aligned_alloc(kAlignment, aligned(text.bytes + 1))), std::free};
  if (text.data == nullptr) return Error{ErrorCode::out_of_memory, "can't allocate memory for a compiled model"};
  text.data.get()[text.bytes] = '\0';
  if (text.bytes > 0) {
    CONVOY_CHECK(done(api, api.ReadOpAttr(attribute, kString, text.data.get(), text.bytes, &text.bytes)));
  }
  return text;
}

Result<std::int64_t> int_of(const Api& api, const OrtNode* node, const char* name, std::int64_t otherwise) {
  const OrtOpAttr* attribute = nullptr;
  if (OrtStatus* none = api.Node_GetAttributeByName(node, name, &attribute)) api.ReleaseStatus(none);
  if (attribute == nullptr) return otherwise;
  std::int64_t value = 0;
  std::size_t bytes = 0;
  CONVOY_CHECK(done(api, api.ReadOpAttr(attribute, kInt, &value, sizeof value, &bytes)));
  return value;
}

Result<std::vector<std::string>> names_of(const Api& api, Result<std::vector<const OrtValueInfo*>> values) {
  if (!values.ok()) return values.error();
  std::vector<std::string> made;
  for (const OrtValueInfo* value : *values) {
    CONVOY_TRY(std::string name, name_of(api, value));
    made.push_back(std::move(name));
  }
  return made;
}

}  // namespace

Result<bool> is_context(const Api& api, const OrtNode* node) {
  const char *op = nullptr, *domain = nullptr;
  CONVOY_CHECK(done(api, api.Node_GetOperatorType(node, &op)));
  CONVOY_CHECK(done(api, api.Node_GetDomain(node, &domain)));
  if (std::string_view(op) != "EPContext" || std::string_view(domain) != "com.microsoft") return false;
  CONVOY_TRY(const Text source, text_of(api, node, "source"));
  return source.up_to_zero() == kProviderName;
}

Result<GraphModel> read_context(const Api& api, const OrtNode* node, const std::string& model_path) {
  CONVOY_TRY(const Text context, text_of(api, node, "ep_cache_context"));
  CONVOY_TRY(const std::int64_t embedded, int_of(api, node, "embed_mode", 1));
  Result<GraphModel> model = bad("it has neither a content nor a file");
  if (embedded != 0) {
    model = parse(context.view(), context.data);
  } else {
    const fs::path file = context.up_to_zero();
    const bool inside = file.is_relative() && std::ranges::find(file, "..") == file.end();
    if (!inside) return bad("its file '" + file.string() + "' is not in the model's folder");
    if (model_path.empty()) return bad("its file '" + file.string() + "' is beside a model that is read from memory");
    model = parse_file((fs::path(model_path).parent_path() / file).string());
  }
  if (!model.ok()) return model.error();
  CONVOY_TRY(model->inputs, names_of(api, inputs_of(api, node)));
  CONVOY_TRY(model->outputs, names_of(api, outputs_of(api, node)));
  return model;
}

Result<std::string> write_context(const GraphModel& model, const std::string& plan,
                                  const ProviderOptions::Context& options, const std::string& model_path, int index) {
  if (options.embed) {
    std::ostringstream content;
    write(content, model, plan);
    return std::move(content).str();
  }
  fs::path beside = options.path;
  if (beside.empty() && !model_path.empty()) {
    beside = fs::path(model_path).replace_filename(fs::path(model_path).stem().string() + "_ctx.onnx");
  }
  if (beside.empty()) return bad("a model from memory needs ep.context_file_path, or ep.context_embed_mode=1");
  const std::string name = beside.stem().string() + "_convoy_" + std::to_string(index) + ".bin";
  const std::string path = beside.replace_filename(name).string();
  std::ofstream file(path, std::ios::binary);
  write(file, model, plan);
  file.close();
  if (!file) return bad("'" + path + "' can't be written");
  return name;
}

Result<OrtNode*> context_node(const Api& api, const std::string& name, const std::vector<std::string>& inputs,
                              const std::vector<std::string>& outputs, const std::string& context, bool embedded) {
  const void* const* const table = api.GetModelEditorApi();
  if (table == nullptr) return bad("this build of ONNX Runtime can't write models");
  if (context.size() > INT_MAX)
    return bad("more than 2 GiB fit into no model: ep.context_embed_mode=0 puts them beside it");
  std::vector<OrtOpAttr*> attributes;
  const auto add = [&](const char* attribute, const void* data, std::size_t size, int type) -> Result<void> {
    OrtOpAttr* made = nullptr;
    CONVOY_CHECK(done(api, api.CreateOpAttr(attribute, data, static_cast<int>(size), type, &made)));
    attributes.push_back(made);
    return {};
  };
  const auto text = [&](const char* attribute, const std::string& value) {
    return add(attribute, value.data(), value.size(), kString);
  };
  const auto number = [&](const char* attribute, std::int64_t value) { return add(attribute, &value, 1, kInt); };
  const auto pointers = [](const std::vector<std::string>& names) {
    std::vector<const char*> made;
    for (const std::string& each : names) made.push_back(each.c_str());
    return made;
  };
  const auto make = [&]() -> Result<OrtNode*> {
    CONVOY_CHECK(number("main_context", 1));
    CONVOY_CHECK(number("embed_mode", embedded ? 1 : 0));
    CONVOY_CHECK(text("ep_cache_context", context));
    CONVOY_CHECK(text("ep_sdk_version", convoy_version_text()));
    CONVOY_CHECK(text("partition_name", name));
    CONVOY_CHECK(text("source", kProviderName));
    const std::vector<const char*> from = pointers(inputs), to = pointers(outputs);
    OrtNode* node = nullptr;
    CONVOY_CHECK(
        done(api, ModelEditorApi(table).CreateNode("EPContext", "com.microsoft", name.c_str(), from.data(), from.size(),
                                                   to.data(), to.size(), attributes.data(), attributes.size(), &node)));
    return node;
  };
  const Result<OrtNode*> made = make();
  for (OrtOpAttr* each : attributes) api.ReleaseOpAttr(each);
  return made;
}

}  // namespace convoy::ort
