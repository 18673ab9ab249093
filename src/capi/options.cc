#include "capi/options.h"

#include "convoy/selection_check.h"
#include "core/math_mode.h"

namespace convoy::capi {
namespace {

Result<int> thread_count(int threads) {
  constexpr int kMost = 4096;
  if (threads < 0 || threads > kMost) return invalid(fmt::format("threads={} is not in 0..{}", threads, kMost));
  return threads == 0 ? cpu_features().logical_cpus : threads;
}

Result<MathMode> read_math(const char* text) {
  if (text == nullptr) return MathMode::strict;
  const auto math = parse_math_mode(text);
  return math.ok() ? math : Result<MathMode>(invalid("math=" + math.error().message));
}

}  // namespace

Result<convoy_options> whole(const convoy_options* given) {
  return read_struct<convoy_options>(given, CONVOY_OPTIONS_INIT, "convoy_options");
}

Result<ScopedRequest> read_request(const convoy_options& options) {
  ScopedRequest place;
  place.request.cpu = cpu_features();
  CONVOY_TRY(const int threads, thread_count(options.threads));
  const std::string device = options.device == nullptr ? "cpu" : options.device;
  const auto ordinal = cuda::parse_device(device);
  if (!ordinal.ok()) return ordinal.error().within("device");
  if (!*ordinal) {
    if (options.target_sms != 0) {
      return invalid(fmt::format("target_sms={}: it is for device=cuda", options.target_sms));
    }
    place.request.threads = threads;
    return place;
  }
  const auto described = cuda::describe(**ordinal);
  if (!described.ok()) return described.error().within("device=" + device);
  const auto sms = cuda::target_sms(*described, options.target_sms);
  if (!sms.ok()) return sms.error().within("target_sms");
  place.request.cuda = *described;
  place.request.target_sms = *sms;
  CONVOY_TRY(cuda::DeviceScope scope, cuda::DeviceScope::enter(**ordinal));
  place.scope.emplace(std::move(scope));
  return place;
}

Result<Chooser> read_options(const convoy_options* given) {
  CONVOY_TRY(const convoy_options options, whole(given));
  CONVOY_TRY(ScopedRequest place, read_request(options));
  Chooser chooser{.place = std::move(place)};
  chooser.options.filter.config = library_config();
  if (options.engines != nullptr) {
    chooser.options.filter.engines = options.engines;
    CONVOY_CHECK(check_names(chooser.options.filter, all_engines()));
  }
  if (options.rules != nullptr) {
    CONVOY_TRY(chooser.options.rules, parse_rules(options.rules, all_engines()));
  }
  chooser.options.strict_rules = options.fallback == 0;
  chooser.options.filter.deterministic_only = options.deterministic_only != 0;
  if (options.workspace_limit < -1) {
    return invalid(fmt::format("workspace_limit={} is neither bytes nor -1", options.workspace_limit));
  }
  if (options.workspace_limit >= 0) {
    chooser.options.filter.workspace_limit = static_cast<std::size_t>(options.workspace_limit);
  }
  if (!(options.budget_seconds >= 0)) {
    return invalid(fmt::format("budget_seconds={} is negative", options.budget_seconds));
  }
  chooser.options.budget_seconds = options.budget_seconds;
  if (options.database != nullptr) chooser.database = options.database;
  if (options.progress != nullptr) {
    chooser.progress = [told = options.progress, user = options.progress_user](const Measurement& measured, int done,
                                                                               int total) {
      const double fraction = total > 0 ? std::min(1.0, static_cast<double>(done) / total) : 0;
      return told(user, fraction, print(measured.candidate).c_str()) == 0;
    };
  }
  CONVOY_TRY(chooser.math, read_math(options.math));
  return chooser;
}

Result<std::unique_ptr<TuningDatabase>> remember(Chooser& chooser) {
  chooser.options.mode = SelectionMode::heuristic;
  std::unique_ptr<TuningDatabase> database;
  if (chooser.database.empty()) return database;
  auto opened = TuningDatabase::open(chooser.database, TuningDatabase::Access::read);
  if (!opened.ok() && opened.error().code != ErrorCode::not_found) return opened.error();
  if (opened.ok()) database = std::move(*opened);
  chooser.options.store = database.get();
  return database;
}

}  // namespace convoy::capi
