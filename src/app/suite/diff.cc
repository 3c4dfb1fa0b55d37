#include "app/suite/diff.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice::app::suite {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct Line {
  char mark;
  std::string_view text;
};

}  // namespace

std::string diff_lines(std::string_view expected, std::string_view got) {
  if (expected == got) return {};
  const std::vector<std::string_view> a = lines_of(expected);
  const std::vector<std::string_view> b = lines_of(got);
  if (a.size() > most_diff_lines || b.size() > most_diff_lines) return {};
  // longest[i][j]: length of the longest common subsequence of the lines from a[i] and from b[j].
  std::vector<std::vector<std::uint16_t>> longest(a.size() + 1, std::vector<std::uint16_t>(b.size() + 1));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      longest[i][j] = a[i] == b[j] ? static_cast<std::uint16_t>(longest[i + 1][j + 1] + 1)
                                   : std::max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  std::vector<Line> lines;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      lines.push_back({' ', a[i++]});
      ++j;
    } else if (i < a.size() && (j == b.size() || longest[i + 1][j] >= longest[i][j + 1])) {
      lines.push_back({'-', a[i++]});
    } else {
      lines.push_back({'+', b[j++]});
    }
  }
  constexpr std::size_t context = 3;
  std::string text;
  bool cut = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto first = lines.begin() + static_cast<std::ptrdiff_t>(i - std::min(i, context));
    const auto last = lines.begin() + static_cast<std::ptrdiff_t>(std::min(i + context + 1, lines.size()));
    if (std::all_of(first, last, [](const Line& line) { return line.mark == ' '; })) {
      cut = true;
      continue;
    }
    if (cut) text += "...\n";
    cut = false;
    text += lines[i].mark;
    text += lines[i].text;
    text += '\n';
  }
  return text;
}

}  // namespace sluice::app::suite
