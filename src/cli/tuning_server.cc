#include "cli/tuning_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "cli/offers.h"
#include "engines/cuda/reference/reference_kernels.h"
#include "report/format.h"
#include "select/measure/habits.h"
#include "select/measure/planner.h"
#include "select/tune/tuner.h"

namespace convoy::cli {
namespace {

constexpr int kPatience = 50;  // milliseconds between two looks at whether it is over

class File {
 public:
  explicit File(int file) : file_(file) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (file_ >= 0) ::close(file_);
  }
  int get() const { return file_; }

  // Something to read within a moment, or the other end is gone.
  bool waits_for_input() const {
    pollfd poll{file_, POLLIN, 0};
    return ::poll(&poll, 1, kPatience) > 0;
  }

 private:
  int file_;
};

// Verdicts are by kernels that are compiled once a type and pass: those that most programs need, all at once, before
// the first problem is asked for.
void prepare_verdicts(const CudaDevice& device) {
  std::vector<ConvProblem> problems;
  for (const char* type : {"bf16", "f16", "f32"}) {
    for (const char* problem :
         {"fprop:x={0},1x8x8x8,nhwc:w={0},8x8x3x3,nhwc", "fprop:x={0},1x512x8x8,nhwc:w={0},8x512x3x3,nhwc",
          "dgrad:x={0},1x8x8x8,nhwc:w={0},8x8x3x3,nhwc", "dgrad:x={0},1x8x8x8,nhwc:w={0},512x8x3x3,nhwc",
          "wgrad:x={0},1x8x8x8,nhwc:w={0},8x8x3x3,nhwc", "wgrad:x={0},1x8x64x64,nhwc:w={0},8x8x3x3,nhwc"}) {
      const auto parsed = parse_problem(fmt::format(fmt::runtime(problem), type));
      if (parsed.ok()) problems.push_back(*parsed);
    }
  }
  static_cast<void>(cuda::compile_references(problems, device.architecture));  // else the first verdict says why not
}

}  // namespace

struct TuningServer::State {
  State(const Program& of, ChoiceOptions choice, std::unique_ptr<TuningDatabase> store, int file, double budget)
      : program(of), choices(std::move(choice)), database(std::move(store)), listening(file), seconds(budget) {}

  void serve() {
    if (const auto request = request_of(0)) prepare_verdicts(*request->cuda);
    while (!over) {
      if (!listening.waits_for_input()) continue;
      const File connection(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (connection.get() >= 0) answer(connection);
    }
  }

  // One problem a connection.
  void answer(const File& connection) {
    std::string line;
    std::array<char, 4096> part{};
    while (!over && !line.ends_with('\n')) {
      if (!connection.waits_for_input()) continue;
      const ssize_t received = ::recv(connection.get(), part.data(), part.size(), 0);
      if (received <= 0) return;
      line.append(part.data(), static_cast<std::size_t>(received));
    }
    const std::string text = answer_to(line) + "end\n";
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t now = ::send(connection.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return;
      sent += static_cast<std::size_t>(now);
    }
  }

  // "measure", ordinal, problem -> `time` lines.
  std::string answer_to(std::string_view line) {
    constexpr std::string_view kMeasure = "measure\t";
    if (!line.starts_with(kMeasure)) return {};
    line.remove_prefix(kMeasure.size());
    int ordinal = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), ordinal);
    if (error != std::errc() || end == line.data() + line.size() || *end != '\t') return {};
    line.remove_prefix(static_cast<std::size_t>(end - line.data()) + 1);
    auto problem = parse_problem(line.substr(0, line.size() - 1));
    const PlanRequest* const request = request_of(ordinal);
    if (!problem.ok() || request == nullptr) return {};
    // The program doesn't say whether it allows TF32: its filters take what they take.
    problem->math = problem->x.type == DataType::f32 ? MathMode::tf32 : MathMode::reduced;
    const double begin = monotonic_seconds();
    measure(*problem, *request);
    spent += monotonic_seconds() - begin;
    return known(*problem, *request);
  }

  void measure(const ConvProblem& problem, const PlanRequest& request) {
    if (spent >= seconds || over) return;
    SelectionOptions options;
    options.mode = SelectionMode::measured;
    options.filter = choices.filter;
    options.objective = choices.objective;
    options.store = database.get();
    options.stop = &over;
    options.budget_seconds = seconds - spent;
    const auto engines = program.engines();
    const auto first = stand_ins(problem, engines, options.filter, request);
    const auto candidates =
        unsettled(problem, offers(problem, first, engines, options.filter, request), engines, options, request);
    if (candidates.empty()) return;
    if (!planner) planner.emplace(selection::habits_on(request).planning_threads);
    const auto plans = planner->start(problem, candidates, engines, request);
    const auto measured = selection::measure_offered(problem, candidates, engines, options, request, plans.get(),
                                                     [&](const Measurement&, int, int) { return !over; });
    ++problems;
    if (!measured.ok()) failed(measured.error());
  }

  // The first line of the first one is said at the end.
  void failed(const Error& error) {
    if (failure.empty()) failure = error.message.substr(0, error.message.find('\n'));
  }

  std::string known(const ConvProblem& problem, const PlanRequest& request) {
    const MeasurementKey key = measurement_key(problem, request, SelectionOptions().caches);
    const auto measured = database->find(key);
    if (!measured.ok()) return {};
    std::vector<TuningRecord> records;
    for (const Measurement& each : *measured) records.push_back({key, each, {}});
    return time_lines(known_costs(records, program.engines(), choices.objective, choices.sm_count));
  }

  // Of a device of this machine; null where it can't be had.
  const PlanRequest* request_of(int ordinal) {
    const auto found = requests.find(ordinal);
    if (found != requests.end()) return found->second ? &*found->second : nullptr;
    Program on = program;
    on.shared.device = fmt::format("cuda:{}", ordinal);
    auto request = on.plan_request();
    if (!request.ok()) failed(request.error());
    auto& kept = requests[ordinal];
    if (request.ok()) kept = *std::move(request);
    return kept ? &*kept : nullptr;
  }

  const Program& program;
  const ChoiceOptions choices;
  const std::unique_ptr<TuningDatabase> database;
  const File listening;
  const double seconds;
  std::atomic<bool> over{false};
  std::map<int, std::optional<PlanRequest>> requests;
  std::optional<selection::Planner> planner;
  double spent = 0;
  int problems = 0;
  std::string failure;  // the first
};

Result<std::unique_ptr<TuningServer>> TuningServer::listen(const Program& program, const ChoiceOptions& options,
                                                           const std::string& socket, double seconds) {
  CONVOY_TRY(const std::string path, TuningDatabase::default_path());
  CONVOY_TRY(auto database, TuningDatabase::open(path, TuningDatabase::Access::write));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof address.sun_path) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--tune: {} is too long for a socket's name (TMPDIR names another folder)", socket)};
  }
  std::copy(socket.begin(), socket.end(), address.sun_path);
  const int file = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto state = std::make_unique<State>(program, options, std::move(database), file, seconds);
  if (file < 0 || ::bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(file, SOMAXCONN) != 0) {
    return Error{ErrorCode::internal, fmt::format("--tune: {}: {}", socket, std::strerror(errno))};
  }
  return std::unique_ptr<TuningServer>(new TuningServer(std::move(state)));
}

TuningServer::TuningServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

void TuningServer::begin() {
  thread_ = std::jthread([state = state_.get()] { state->serve(); });
}

TuningServer::~TuningServer() { state_->over = true; }

std::string TuningServer::end() {
  state_->over = true;
  if (thread_.joinable()) thread_.join();
  std::string done = state_->problems == 0 ? "nothing was measured while the program waited"
                                           : fmt::format("{} problems measured while the program waited, for {}",
                                                         state_->problems, report::seconds(state_->spent));
  return state_->failure.empty() ? done : fmt::format("{}; {}", done, state_->failure);
}

}  // namespace convoy::cli
