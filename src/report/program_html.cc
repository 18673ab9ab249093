#include <fmt/format.h>

#include "report/format.h"
#include "report/html.h"
#include "report/program_view.h"
#include "report/program_words.h"

namespace convoy::report {
namespace {

HtmlCell bytes_cell(const std::optional<std::int64_t>& size) {
  if (!size) return {};
  const auto value = static_cast<double>(*size);
  return {bytes(value), value};
}

HtmlCell joules_cell(const std::optional<double>& joules) {
  if (!joules) return {};
  return {fmt::format("{} J", number(*joules)), joules};
}

std::string link_to(const Convolution& convolution) { return fmt::format("#c{}", convolution.number); }

HtmlCell number_cell(std::string text, std::optional<double> value) { return {std::move(text), value}; }

std::string id_of(const Convolution& convolution) { return fmt::format("c{}", convolution.number); }

HtmlTable summary(const ProgramReport& report) {
  HtmlTable table;
  table.column("#", Align::right)
      .column("calls", Align::right, "executions that cuDNN was asked for")
      .column("share", Align::right, "of the seconds of all calls that have a time")
      .column("convolution", Align::left, "pass, filter, channels, size, batch, type, layout of x")
      .column("engine used", Align::left, "the one with the most calls")
      .column("time", Align::right, "of one call, from the tuning database")
      .column("best known", Align::left, "the fastest that loses no more precision or determinism")
      .column("best time", Align::right)
      .column("taken", Align::right, "gain against what cuDNN's own order would have given")
      .column("not taken", Align::right, "what the best known would save")
      .column("energy", Align::right, "of one call")
      .column("workspace", Align::right)
      .column("remark");
  for (const Convolution& each : report.convolutions) {
    const Algorithm* used = each.used ? &each.algorithms[*each.used] : nullptr;
    const Algorithm* best = each.best ? &each.algorithms[*each.best] : nullptr;
    table.row({number_cell(fmt::format("{}", each.number), each.number),
               number_cell(thousands(each.graph.calls), static_cast<double>(each.graph.calls)),
               {.text = each.timed_calls > 0 ? percent(each.share) : "-",
                .value = each.timed_calls > 0 ? std::optional(each.share) : std::nullopt,
                .bar = each.share},
               {.text = short_name(each.problem), .link = link_to(each)},
               {.text = used != nullptr ? without_knobs(used->candidate) : "-"},
               used != nullptr ? number_cell(time_text(used->seconds, used->rough), used->seconds) : HtmlCell{"-"},
               {.text = best == nullptr ? "-"
                        : best == used  ? "the same"
                                        : without_knobs(best->candidate),
                .style = best != nullptr && best != used ? Style::good : Style::plain},
               best != nullptr ? number_cell(time_text(best->seconds, best->rough), best->seconds) : HtmlCell{"-"},
               {.text = gain_text(each.gain_taken, each.seconds + each.gain_taken),
                .value = each.gain_taken,
                .style = each.gain_taken < 0 ? Style::bad : Style::good},
               {.text = gain_text(each.gain_not_taken, each.seconds),
                .value = each.gain_not_taken,
                .style = each.gain_not_taken > 0.05 * each.seconds ? Style::warning : Style::plain},
               used != nullptr ? joules_cell(used->joules) : HtmlCell{},
               used != nullptr ? bytes_cell(used->workspace_bytes) : HtmlCell{},
               {.text = remark_on(each)}},
              each.timed_calls == 0 ? Style::faint : Style::plain);
  }
  return table;
}

void add_details(HtmlPage& page, const Convolution& convolution) {
  page.begin_details(fmt::format("#{} {}", convolution.number, short_name(convolution.problem)), id_of(convolution));
  std::vector<std::pair<std::string, std::string>> facts = {
      {"problem", convolution.graph.problem},
      {"math", fmt::format("{}: {}", name_of(convolution.math.math), convolution.math.from)},
      {"operations", convolution.graph.operations}};
  if (!convolution.graph.device.empty()) facts.emplace_back("device", convolution.graph.device);
  if (convolution.caches) facts.emplace_back("caches", std::string(name_of(*convolution.caches)));
  page.facts(facts);
  HtmlTable table;
  table.column("offered", Align::right, "position in cuDNN's order")
      .column("algorithm")
      .column("time", Align::right)
      .column("workspace", Align::right)
      .column("energy", Align::right)
      .column("calls", Align::right)
      .column("notes")
      .column("remark");
  for (std::size_t i = 0; i < convolution.algorithms.size(); ++i) {
    const Algorithm& algorithm = convolution.algorithms[i];
    table.row({algorithm.place > 0 ? number_cell(fmt::format("{}", algorithm.place), algorithm.place) : HtmlCell{},
               {.text = algorithm.candidate},
               number_cell(time_text(algorithm.seconds, algorithm.rough), algorithm.seconds),
               bytes_cell(algorithm.workspace_bytes),
               joules_cell(algorithm.joules),
               algorithm.calls > 0 ? number_cell(thousands(algorithm.calls), static_cast<double>(algorithm.calls))
                                   : HtmlCell{},
               {.text = algorithm.notes ? fmt::format("{}", fmt::join(*algorithm.notes, " ")) : "?"},
               {.text = remark_on(convolution, i)}},
              style_of(convolution, i));
  }
  page.table(table);
  page.end_details();
}

void add_lines(HtmlPage& page, std::string_view heading, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  page.heading(heading);
  for (const std::string& line : lines) page.paragraph(line);
}

}  // namespace

std::string html_of(const ProgramReport& report, const LayoutComparison& layouts) {
  const std::string& program = report.record.programs.empty() ? report.record.cudnn : report.record.programs.front();
  HtmlPage page("Convolutions of " + program);
  page.facts(facts_of(report));
  std::vector<std::pair<std::string, std::string>> figures = {
      {"distinct convolutions", thousands(static_cast<std::int64_t>(report.convolutions.size()))},
      {"calls", thousands(report.calls)}};
  if (report.timed_calls > 0) {
    const auto fraction = static_cast<double>(report.timed_calls) / static_cast<double>(report.calls);
    figures.emplace_back("of the calls have a time", percent(fraction));
    figures.emplace_back("in these calls", seconds(report.seconds));
    figures.emplace_back("gain taken", percent(report.gain_taken / (report.seconds + report.gain_taken)));
    figures.emplace_back("gain not taken", percent(report.gain_not_taken / report.seconds));
  }
  page.figures(figures);
  for (const std::string& line : totals_of(report)) page.paragraph(line);
  page.heading("Convolutions");
  page.table(summary(report), true);
  add_lines(page, "Layouts", report.timed_calls > 0 ? layout_sentences(layouts, report) : std::vector<std::string>());
  add_lines(page, "Remarks", remarks_of(report));
  add_lines(page, "Passed through", passed_through(report));
  page.heading("Every algorithm");
  for (const Convolution& each : report.convolutions) add_details(page, each);
  return page.text();
}

}  // namespace convoy::report
