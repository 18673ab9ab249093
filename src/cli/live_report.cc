#include "cli/live_report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "cli/program_reports.h"
#include "io/file.h"
#include "report/program_view.h"

namespace convoy::cli {
namespace {

constexpr char kNow = 'n', kStop = 's';
constexpr double kLongest = 30 * 24 * 3600.0;

std::atomic<int> wake_end{-1};

extern "C" void wake_for_report(int) {
  const int saved = errno;
  const char what = kNow;
  if (const int end = wake_end.load(); end >= 0) [[maybe_unused]]
    const auto written = ::write(end, &what, 1);
  errno = saved;
}

}  // namespace

Result<void> write_report(const std::string& record, const std::vector<std::string>& files) {
  CONVOY_TRY(const RecordText text, read_record(record));
  CONVOY_TRY(const ProgramReports made, report_on(text, record));
  for (const std::string& file : files) {
    const std::string rendered = report::rendered(made.report, made.layouts, file);
    CONVOY_CHECK(io::write_file(file, std::as_bytes(std::span(rendered))));
  }
  return {};
}

LiveReport::LiveReport(std::string record, std::vector<std::string> files, double every_seconds)
    : record_(std::move(record)), files_(std::move(files)), every_seconds_(every_seconds) {}

Result<void> LiveReport::start() {
  if (::pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) {
    return Error{ErrorCode::internal, fmt::format("pipe: {}", std::strerror(errno))};
  }
  wake_end = wake_[1];
  std::signal(SIGUSR2, wake_for_report);
  thread_ = std::thread([this] { run(); });
  return {};
}

void LiveReport::stop() {
  if (!thread_.joinable()) return;
  std::signal(SIGUSR2, SIG_IGN);
  wake_end = -1;
  [[maybe_unused]] const auto written = ::write(wake_[1], &kStop, 1);
  thread_.join();
  for (int& end : wake_) ::close(std::exchange(end, -1));
}

void LiveReport::run() {
  using Clock = std::chrono::steady_clock;
  const auto period = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(every_seconds_));
  Clock::time_point next = Clock::now() + period;
  std::string said;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count();
    struct pollfd end = {wake_[0], POLLIN, 0};
    const int ready = ::poll(&end, 1, static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 3'600'000)));
    if (ready < 0 && errno != EINTR) return;
    bool now = Clock::now() >= next;
    char what = 0;
    while (ready > 0 && ::read(wake_[0], &what, 1) == 1) {
      if (what == kStop) return;
      now = true;
    }
    if (!now) continue;
    next = Clock::now() + period;
    if (record_parts(record_).empty()) continue;  // no process has written yet
    const auto written = write_report(record_, files_);
    if (written.ok() || written.error().message == said) continue;
    said = written.error().message;
    const std::string line = fmt::format("convoy exec: --report: {}\n", said);
    std::fputs(line.c_str(), stderr);
  }
}

Result<double> parse_period(const std::string& text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const double factor = unit == "s" || unit.empty() ? 1 : unit == "m" || unit == "min" ? 60 : unit == "h" ? 3600 : 0;
  const double seconds = number * factor;
  if (error != std::errc() || !(seconds >= 1) || seconds > kLongest) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("'{}' is no time from 1s to 720h (90s, 5m, 2h; seconds where there is no unit)", text)};
  }
  return seconds;
}

}  // namespace convoy::cli
