#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/format.h"
#include "report/program_view.h"
#include "report/program_words.h"
#include "report/table.h"

namespace convoy::report {
namespace {

// Text of tables and lines, and what the tables had no room for.
class Text {
 public:
  explicit Text(const Page& page) : page_(page) {}
  void line(std::string_view text, Style style = Style::plain) {
    for (std::string_view rest = text; !rest.empty() || rest.data() == text.data();) {
      const std::size_t end = rest.find('\n');
      text_ += styled(wrapped(rest.substr(0, end), page_.width), style, page_.colour) + "\n";
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
  }
  void lines(const std::vector<std::string>& all) {
    for (const std::string& each : all) line(each);
  }
  void table(const Table& table) {
    const Table::Rendered rendered = table.render(page_);
    text_ += rendered.text;
    for (const std::string& head : rendered.left_out) {
      if (std::find(left_out_.begin(), left_out_.end(), head) == left_out_.end()) left_out_.push_back(head);
    }
  }
  std::string take() {
    if (!left_out_.empty()) {
      line(fmt::format("left out at {} columns: {} (--wide shows all)", page_.width, fmt::join(left_out_, ", ")),
           Style::faint);
    }
    return std::move(text_);
  }

 private:
  Page page_;
  std::string text_;
  std::vector<std::string> left_out_;
};

std::string short_text(const Convolution& convolution) {
  const ConvProblem& problem = convolution.problem;
  std::string text = short_name(problem);
  if (problem.x.type == DataType::f32) text += fmt::format(" {}", name_of(problem.math));
  return text;
}

void say_algorithms(Text& text, const Convolution& convolution) {
  const RecordedGraph& graph = convolution.graph;
  text.line(fmt::format("\n#{} {}: {} calls{}", convolution.number, short_text(convolution), thousands(graph.calls),
                        graph.device.empty() ? "" : " on " + graph.device),
            Style::bold);
  text.line(graph.problem);
  text.line(fmt::format("math={}: {}{}", name_of(convolution.math.math), convolution.math.from,
                        convolution.caches ? fmt::format("; times with {} caches", name_of(*convolution.caches)) : ""));
  Table table;
  table.column("offered", Align::right).column("algorithm").column("time", Align::right);
  table.column("workspace", Align::right).column("energy", Align::right, 1).column("calls", Align::right);
  table.column("notes", Align::left, 2).column("remark");
  for (std::size_t i = 0; i < convolution.algorithms.size(); ++i) {
    const Algorithm& algorithm = convolution.algorithms[i];
    table.row({algorithm.place > 0 ? fmt::format("{}", algorithm.place) : "", algorithm.candidate,
               time_text(algorithm.seconds, algorithm.rough),
               algorithm.workspace_bytes ? bytes(static_cast<double>(*algorithm.workspace_bytes)) : "",
               algorithm.joules ? number(*algorithm.joules) + " J" : "",
               algorithm.calls > 0 ? thousands(algorithm.calls) : "",
               algorithm.notes ? fmt::format("{}", fmt::join(*algorithm.notes, " ")) : "?", remark_on(convolution, i)},
              style_of(convolution, i));
  }
  text.table(table);
}

}  // namespace

std::string text_of(const ProgramReport& report, const LayoutComparison& layouts, const Page& page, int most) {
  Text text(page);
  for (const auto& [name, value] : facts_of(report)) text.line(fmt::format("{:8} {}", name, value));
  text.lines(totals_of(report));
  Table table;
  table.column("#", Align::right).column("calls", Align::right).column("share", Align::right).column("convolution");
  table.column("engine used").column("time", Align::right).column("best known").column("best time", Align::right);
  table.column("taken", Align::right).column("not taken", Align::right).column("energy", Align::right, 2);
  table.column("remark", Align::left, 1);
  int rows = 0;
  for (const Convolution& each : report.convolutions) {
    if (most > 0 && ++rows > most) continue;
    const Algorithm* used = each.used ? &each.algorithms[*each.used] : nullptr;
    const Algorithm* best = each.best ? &each.algorithms[*each.best] : nullptr;
    table.row(
        {fmt::format("{}", each.number), thousands(each.graph.calls), each.timed_calls > 0 ? percent(each.share) : "-",
         short_text(each), used != nullptr ? without_knobs(used->candidate) : "-",
         used != nullptr ? time_text(used->seconds, used->rough) : "-",
         best == nullptr ? "-"
         : best == used  ? "the same"
                         : without_knobs(best->candidate),
         best != nullptr ? time_text(best->seconds, best->rough) : "-",
         gain_text(each.gain_taken, each.seconds + each.gain_taken), gain_text(each.gain_not_taken, each.seconds),
         used != nullptr && used->joules ? number(*used->joules) + " J" : "", remark_on(each)},
        each.timed_calls == 0                       ? Style::faint
        : each.gain_not_taken > 0.05 * each.seconds ? Style::warning
                                                    : Style::plain);
  }
  if (!table.empty()) {
    text.line("");
    text.table(table);
  }
  if (most > 0 && rows > most) text.line(fmt::format("and {} more (--top 0 shows all)", rows - most));
  if (report.timed_calls > 0) {
    text.line("");
    text.lines(layout_sentences(layouts, report));
  }
  if (const auto remarks = remarks_of(report); !remarks.empty()) {
    text.line("");
    text.lines(remarks);
  }
  if (const auto others = passed_through(report); !others.empty()) {
    text.line("\npassed through:");
    for (const std::string& each : others) text.line("  " + each);
  }
  return text.take();
}

std::string layers_text(const ProgramReport& report, const std::set<int>& numbers, const Page& page) {
  Text text(page);
  std::vector<std::string> layers;  // in the order of their largest convolution
  std::map<std::string, std::vector<const Convolution*>> of_layer;
  std::set<std::string> wanted;
  for (const Convolution& each : report.convolutions) {
    const std::string layer = layer_of(each.problem);
    if (numbers.contains(each.number)) wanted.insert(layer);
    auto& members = of_layer[layer];
    if (members.empty()) layers.push_back(layer);
    members.push_back(&each);
  }
  for (const std::string& layer : layers) {
    if (!wanted.contains(layer)) continue;
    auto& members = of_layer[layer];
    std::stable_sort(members.begin(), members.end(),
                     [](const Convolution* a, const Convolution* b) { return a->problem.pass < b->problem.pass; });
    for (const Convolution* member : members) say_algorithms(text, *member);
  }
  return text.take();
}

std::string rendered(const ProgramReport& report, const LayoutComparison& layouts, const std::string& path) {
  if (path.ends_with(".html")) return html_of(report, layouts);
  if (path.ends_with(".json")) return dump(to_json(report, layouts)) + "\n";
  return text_of(report, layouts, Page());
}

}  // namespace convoy::report
