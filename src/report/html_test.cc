#include "report/html.h"

#include <gtest/gtest.h>

namespace convoy::report {
namespace {

TEST(Html, TextCannotBecomeMarkup) {
  EXPECT_EQ(html_escaped("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(html_escaped(std::string("\x01\x1b[2J\x7f")), "??[2J?");
  EXPECT_EQ(html_escaped("\xc3\xa4 \xff \xe2\x82"), "\xc3\xa4 ? ??") << "what is no UTF-8 is replaced";
  HtmlPage page("</title><script>");
  page.heading("<h>", "a\"b");
  page.begin_details("</details>", "x'y");
  page.end_details();
  HtmlTable table;
  table.column("<td>", Align::right, "\">");
  table.row({{.text = "<i>", .value = 1.5, .link = "#\"x", .bar = 7.0}});
  page.table(table, true);
  const std::string text = page.text();
  for (const char* bad : {"</title><script>", "<h>", "<i>", "\"x\"", "<td><", "=\"\">"}) {
    EXPECT_EQ(text.find(bad), std::string::npos) << bad;
  }
  EXPECT_NE(text.find("data-v=\"1.5\""), std::string::npos);
  EXPECT_NE(text.find("--share:100.0%"), std::string::npos);
}

TEST(Html, RowsHaveACellAColumn) {
  HtmlTable table;
  table.column("a").column("b");
  table.row({{.text = "1"}});
  EXPECT_NE(table.text().find("<td>1</td><td></td>"), std::string::npos) << table.text();
}

}  // namespace
}  // namespace convoy::report
