#include "files/http_date.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

namespace sluice::files {
namespace {

using namespace std::chrono;

constexpr std::int64_t last_second = 253'402'300'799;  // the end of the year 9999
constexpr std::array<std::string_view, 7> days{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                               "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// Removes the expected parts from the front of the text. After the first mismatch, all further parts fail too.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool ended_well() const { return good_ && rest_.empty(); }

  Scanner& literal(std::string_view text) {
    if (good_ && rest_.starts_with(text)) {
      rest_.remove_prefix(text.size());
    } else {
      good_ = false;
    }
    return *this;
  }
  Scanner& number(std::size_t digits, int& value) {
    value = 0;
    good_ = good_ && rest_.size() >= digits;
    for (std::size_t i = 0; good_ && i < digits; ++i) {
      good_ = rest_[i] >= '0' && rest_[i] <= '9';
      value = value * 10 + (rest_[i] - '0');
    }
    if (good_) rest_.remove_prefix(digits);
    return *this;
  }
  // The day of the month in asctime format: " 6" or "16".
  Scanner& padded_number(int& value) {
    if (!good_ || !rest_.starts_with(' ')) return number(2, value);
    rest_.remove_prefix(1);
    return number(1, value);
  }
  // January is 1.
  Scanner& month(int& value) {
    const auto found = std::ranges::find(months, rest_.substr(0, 3));
    good_ = good_ && found != months.end();
    value = static_cast<int>(found - months.begin()) + 1;
    if (good_) rest_.remove_prefix(3);
    return *this;
  }
  // The day of the week is not compared with the date.
  Scanner& day_name(bool whole) {
    const auto size = [&](std::string_view name) { return whole ? name.size() : 3; };
    const auto found = std::ranges::find_if(
        days, [&](std::string_view name) { return rest_.starts_with(name.substr(0, size(name))); });
    good_ = good_ && found != days.end();
    if (good_) rest_.remove_prefix(size(*found));
    return *this;
  }
  Scanner& time(int& hour, int& minute, int& second) {
    return number(2, hour).literal(":").number(2, minute).literal(":").number(2, second);
  }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

std::string http_date(std::int64_t second) {
  second = std::clamp<std::int64_t>(second, 0, last_second);
  const sys_days day{std::chrono::days(second / 86'400)};
  const year_month_day date(day);
  const int rest = static_cast<int>(second % 86'400);
  char text[48];
  const int size = std::snprintf(text, sizeof text, "%.3s, %02u %.3s %04d %02d:%02d:%02d GMT",
                                 days[weekday(day).c_encoding()].data(), static_cast<unsigned>(date.day()),
                                 months[static_cast<unsigned>(date.month()) - 1].data(), static_cast<int>(date.year()),
                                 rest / 3600, rest / 60 % 60, rest % 60);
  return {text, static_cast<std::size_t>(size)};
}

std::optional<std::int64_t> parse_http_date(std::string_view text, std::int64_t now) {
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  bool good = Scanner(text)
                  .day_name(false)
                  .literal(", ")
                  .number(2, day)
                  .literal(" ")
                  .month(month)
                  .literal(" ")
                  .number(4, year)
                  .literal(" ")
                  .time(hour, minute, second)
                  .literal(" GMT")
                  .ended_well();
  if (!good) {
    good = Scanner(text)
               .day_name(false)
               .literal(" ")
               .month(month)
               .literal(" ")
               .padded_number(day)
               .literal(" ")
               .time(hour, minute, second)
               .literal(" ")
               .number(4, year)
               .ended_well();
  }
  if (!good) {
    good = Scanner(text)
               .day_name(true)
               .literal(", ")
               .number(2, day)
               .literal("-")
               .month(month)
               .literal("-")
               .number(2, year)
               .literal(" ")
               .time(hour, minute, second)
               .literal(" GMT")
               .ended_well();
    const year_month_day today(
        floor<std::chrono::days>(sys_seconds(seconds(std::clamp<std::int64_t>(now, 0, last_second)))));
    year += static_cast<int>(today.year()) / 100 * 100;
    if (year > static_cast<int>(today.year()) + 50) year -= 100;
  }
  const year_month_day date(std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day)));
  // Second 60 is a leap second.
  if (!good || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return sys_days(date).time_since_epoch().count() * std::int64_t{86'400} + hour * 3600 + minute * 60 + second;
}

}  // namespace sluice::files
