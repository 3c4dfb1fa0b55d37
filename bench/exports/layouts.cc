// A JSON value in four memory layouts, which differ in what they share: the time for making all rows as objects in an
// array, copying the array, writing it as text, and freeing it. usage: layouts CONNECTION SQL csj. Prints a JSON object
// for each layout, with nanoseconds, allocations and bytes for each row.
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include <malloc.h>

#include "clock.h"
#include "count_malloc.h"
#include "rows.h"

namespace {

using exports::Result;

// Either each member of an array or object is shared, or arrays and objects as a whole.
template <bool shares_members, bool shares_strings>
struct Json {
  using String = std::conditional_t<shares_strings, std::shared_ptr<const std::string>, std::string>;
  using Member = std::conditional_t<shares_members, std::shared_ptr<Json>, Json>;
  template <class Container>
  using Held = std::conditional_t<shares_members, Container, std::shared_ptr<Container>>;
  using Array = std::vector<Member>;
  using Object = std::map<std::string, Member>;

  std::variant<std::nullptr_t, bool, std::int64_t, double, String, Held<Array>, Held<Object>> value;

  static Json text(std::string_view text) {
    if constexpr (shares_strings) return {std::make_shared<const std::string>(text)};
    if constexpr (!shares_strings) return {std::string(text)};
  }
  static Member member(Json json) {
    if constexpr (shares_members) return std::make_shared<Json>(std::move(json));
    if constexpr (!shares_members) return json;
  }
  template <class Container>
  static Json container(Container container) {
    if constexpr (shares_members) return {std::move(container)};
    if constexpr (!shares_members) return {std::make_shared<Container>(std::move(container))};
  }

  static Json make(const Result& result) {
    Array rows;
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      Object object;
      for (int i = 0; i < PQnfields(result.get()); ++i) {
        object.emplace(PQfname(result.get(), i), exports::with_value(result, row, i, [](auto value) {
                         if constexpr (std::is_same_v<decltype(value), std::string_view>) return member(text(value));
                         if constexpr (!std::is_same_v<decltype(value), std::string_view>) return member({value});
                       }));
      }
      rows.push_back(member(container(std::move(object))));
    }
    return container(std::move(rows));
  }

  void append_to(std::string& out) const {
    std::visit([&](const auto& held) { append(out, held); }, value);
  }

 private:
  static void append(std::string& out, std::nullptr_t) { out += "null"; }
  static void append(std::string& out, bool value) { out += value ? "true" : "false"; }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  static void append(std::string& out, Number value) {
    char text[32];
    out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
  }
  static void append(std::string& out, const std::string& text) { exports::append_json_string(out, text); }
  template <class T>
  static void append(std::string& out, const std::shared_ptr<T>& shared) {
    append(out, *shared);
  }
  static void append(std::string& out, const Json& json) { json.append_to(out); }
  static void append(std::string& out, const Array& array) {
    out += '[';
    for (const Member& member : array) {
      append(out, member);
      out += ',';
    }
    out.back() = ']';
  }
  static void append(std::string& out, const Object& object) {
    out += '{';
    for (const auto& [name, member] : object) {
      append(out, name);
      out += ':';
      append(out, member);
      out += ',';
    }
    out.back() = '}';
  }
};

struct Nlohmann {
  exports::Json json;

  static Nlohmann make(const Result& result) {
    exports::Json rows = exports::Json::array();
    for (int row = 0; row < PQntuples(result.get()); ++row) rows.push_back(exports::object_of(result, row));
    return {std::move(rows)};
  }
  void append_to(std::string& out) const { out += json.dump(); }
};

std::size_t bytes_in_use() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

template <class Layout>
void print(const char* name, const Result& result) {
  const int rows = PQntuples(result.get());
  exports::Times make{}, copying{}, write{}, free{};
  std::size_t made = 0, used = 0;
  std::string text;
  for (std::size_t i = 0; i < make.size(); ++i) {
    std::optional<Layout> document, copy;
    text.clear();
    const std::size_t before = allocations_made(), bytes = bytes_in_use();
    make[i] = exports::nanoseconds([&] { document = Layout::make(result); });
    made = allocations_made() - before;
    used = bytes_in_use() - bytes;
    copying[i] = exports::nanoseconds([&] { copy = document; });
    copy.reset();
    write[i] = exports::nanoseconds([&] { document->append_to(text); });
    free[i] = exports::nanoseconds([&] { document.reset(); });
  }
  const auto of_row = [&](exports::Times times) { return exports::median(times) / rows; };
  std::printf(
      "{\"layout\": \"%s\", \"rows\": %d, \"text_bytes\": %zu, \"make_ns\": %.4g, \"copy_ns\": %.4g, \"write_ns\": "
      "%.4g, "
      "\"free_ns\": %.4g, \"allocations\": %.2f, \"bytes\": %zu}\n",
      name, rows, text.size(), of_row(make), of_row(copying), of_row(write), of_row(free),
      static_cast<double>(made) / rows, used / static_cast<std::size_t>(rows));
}

}  // namespace

int main(int count, char** values) {
  const exports::Arguments arguments = exports::arguments(count, values);
  const Result result = exports::read_all(exports::connect(arguments.connection), arguments.sql);
  print<Json<true, false>>("members shared", result);
  print<Json<true, true>>("members and strings shared", result);
  print<Json<false, false>>("arrays and objects shared", result);
  print<Json<false, true>>("arrays, objects and strings shared", result);
  print<Nlohmann>("nlohmann::ordered_json, nothing shared", result);
}
