#include "user.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace case_study {
namespace {

constexpr std::array<std::string_view, 24> given_names = {
    "Ada",     "Alan",  "Barbara", "Bjarne",    "Dennis", "Donald", "Edsger", "Frances",
    "Grace",   "Hedy",  "Jürgen",  "Katherine", "Ken",    "Leslie", "Linus",  "Margaret",
    "Niklaus", "Radia", "Renée",   "Robin",     "Shafi",  "Sophie", "Tim",    "Zoë"};
constexpr std::array<std::string_view, 20> family_names = {
    "Allen",  "Backus",   "Dijkstra", "Goldberg", "Hamilton", "Hopper",  "Johnson",    "Kernighan", "Knuth",  "Lamport",
    "Liskov", "Lovelace", "Milner",   "O'Neil",   "Perlman",  "Ritchie", "Stroustrup", "Thompson",  "Turing", "Wirth"};
constexpr std::array<std::string_view, 8> departments = {
    "Accounting", "Customer Support", "Engineering", "Human Resources",
    "Legal",      "Logistics",        "Marketing",   "Research and Development"};
constexpr std::array<std::string_view, 7> titles = {"Analyst",       "Assistant Manager", "Associate Director",
                                                    "Coordinator",   "Senior Engineer",   "Team Lead",
                                                    "Vice President"};
constexpr std::array<std::string_view, 10> streets = {"Bridge Street",  "Castle Road", "Church Lane",  "Garden Avenue",
                                                      "High Street",    "Mill Lane",   "Park Terrace", "Station Square",
                                                      "Victoria Drive", "Willow Court"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> cities = {{{"Amsterdam", "NL"},
                                                                                  {"Copenhagen", "DK"},
                                                                                  {"Edinburgh", "GB"},
                                                                                  {"Kraków", "PL"},
                                                                                  {"Lisbon", "PT"},
                                                                                  {"München", "DE"},
                                                                                  {"San Francisco", "US"},
                                                                                  {"Zürich", "CH"}}};
constexpr std::array<std::string_view, 6> time_zones = {"America/Los_Angeles", "America/New_York", "Asia/Singapore",
                                                        "Europe/Berlin",       "Europe/London",    "Europe/Warsaw"};
constexpr std::array<std::string_view, 6> languages = {"de-DE", "en-GB", "en-US", "fr-FR", "pl-PL", "pt-PT"};
constexpr std::array<std::string_view, 8> sentences = {"Keeps the lights on at the weekend.",
                                                       "Says \"it depends\" and then says on what.",
                                                       "Joined with the second office and knows where everything is.",
                                                       "Writes the minutes that people read.",
                                                       "Speaks three languages, two of them before noon.",
                                                       "Runs the marathon each spring, and the on-call rota all year.",
                                                       "Looks after the northern region and its warehouses.",
                                                       "Can be found in the library on Thursdays."};

// Numbers that are the same on every machine; the standard's distributions do not promise that.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(engine_() % bound); }

  template <class T>
  const T& one_of(std::span<const T> choices) {
    return choices[below(choices.size())];
  }

  template <class T, std::size_t N>
  const T& one_of(const std::array<T, N>& choices) {
    return one_of(std::span<const T>(choices));
  }

  std::string time(int year) {
    using namespace std::chrono;
    const sys_seconds begin = sys_days(std::chrono::year(year) / January / 1);
    return fmt::format("{:%FT%T}+00:00", begin + seconds(below(365 * 86'400)));
  }

 private:
  std::mt19937_64 engine_;
};

std::string address_of(std::string_view given, std::string_view family, std::int64_t id) {
  std::string local;
  for (const char c : fmt::format("{}.{}", given, family)) {
    if (c == '.' || (static_cast<unsigned char>(c) < 0x80 && std::isalpha(static_cast<unsigned char>(c)) != 0))
      local += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return fmt::format("{}.{}@example.com", local, id);
}

User make_user(std::int64_t id, Dice& dice) {
  const std::string_view given = dice.one_of(given_names);
  const std::string_view family = dice.one_of(family_names);
  const auto& [city, country] = dice.one_of(cities);
  User user;
  user.id = id;
  user.name = fmt::format("{} {}", given, family);
  user.email = address_of(given, family, id);
  user.title = dice.one_of(titles);
  user.department = dice.one_of(departments);
  user.roles = {"member"};
  user.active = dice.below(20) != 0;
  user.created_at = dice.time(2023);
  user.updated_at = dice.time(2024);
  const std::size_t house = 1 + dice.below(180);
  user.address = {fmt::format("{} {}", house, dice.one_of(streets)), std::string(city),
                  fmt::format("{:05}", dice.below(100'000)), std::string(country)};
  user.settings = {{"language", std::string(dice.one_of(languages))},
                   {"theme", dice.below(3) == 0 ? "dark" : "light"},
                   {"time_zone", std::string(dice.one_of(time_zones))}};
  user.about = dice.one_of(sentences);
  return user;
}

}  // namespace

bool has_role(const User& user, std::string_view role) {
  return std::find(user.roles.begin(), user.roles.end(), role) != user.roles.end();
}

std::vector<User> make_users(std::size_t count, std::uint64_t seed) {
  Dice dice(seed);
  std::vector<User> users;
  users.reserve(count);
  for (std::size_t i = 0; i < count; ++i) users.push_back(make_user(static_cast<std::int64_t>(i + 1), dice));

  std::vector<std::size_t> order(count);
  const auto give = [&](const char* role, std::size_t share) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = 0; i < count / share; ++i) {  // a Fisher-Yates shuffle that stops when it has enough
      std::swap(order[i], order[i + dice.below(count - i)]);
      users[order[i]].roles.emplace_back(role);
    }
  };
  give("admin", 100);
  give("editor", 10);
  give("reviewer", 5);
  return users;
}

}  // namespace case_study
