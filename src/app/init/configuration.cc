#include "app/init/configuration.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/query/query.h"
#include "app/config/text.h"

namespace sluice::app::init {
namespace {

bool is_word(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && is_letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// On one line, without control characters.
std::string plain(std::string_view text) {
  std::string line;
  for (const char c : text) line.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c);
  return line;
}

// A string of TOML. SQL with quoted names reads better between single quotes.
std::string toml(std::string_view text) {
  const bool is_literal = text.contains('"') && !text.contains('\'');
  return is_literal ? fmt::format("'{}'", text) : config::quote(plain(text));
}

std::string toml_key(std::string_view name) { return is_word(name) ? std::string(name) : config::quote(plain(name)); }

// A table's name as a segment of a path: `Order Items` is Order_Items. A dot would be the beginning of a format.
std::string segment_of(std::string_view name) {
  std::string segment;
  for (const char c : name) {
    const bool is_plain = static_cast<unsigned char>(c) >= 0x80 || is_word(std::string{'a', c}) || c == '-';
    segment.push_back(is_plain ? c : '_');
  }
  return segment;
}

// Whether clients can name the column in parameters such as `sort`.
bool is_listed(const Column& column) { return column.compares && !column.name.contains(','); }

template <class Is>
std::vector<std::string> names_of(const Table& table, Is is) {
  std::vector<std::string> names;
  for (const Column& column : table.columns) {
    if (is(column)) names.push_back(column.name);
  }
  return names;
}

std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(config::quote(name));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string columns_of(const Table& table) {
  std::vector<std::string_view> columns;
  for (const Column& column : table.columns) columns.push_back(column.sql);
  return fmt::format("{}", fmt::join(columns, ", "));
}

// The parameters of a path, and the condition of a statement that they meet.
class Place {
 public:
  void add(const Column& column) {
    const std::string name = is_word(column.name) ? column.name : fmt::format("key{}", ++unnamed_);
    const bool is_number = column.is_integer;
    path_ += fmt::format("/{{{}{}}}", name, is_number ? ":int" : "");
    location_ += fmt::format("/{{{}}}", name);
    where_ += fmt::format("{}{} = :{}", where_.empty() ? " WHERE " : " AND ", column.sql, name);
    names_.emplace_back(column.name, name);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& location() const { return location_; }
  [[nodiscard]] const std::string& where() const { return where_; }
  // The parameters have the names of their columns.
  [[nodiscard]] bool is_plain() const { return unnamed_ == 0; }
  // The parameter of a column; empty if it has none.
  [[nodiscard]] std::string_view of(std::string_view column) const {
    const auto found = std::ranges::find(names_, column, &std::pair<std::string, std::string>::first);
    return found == names_.end() ? std::string_view() : std::string_view(found->second);
  }

 private:
  std::string path_;
  std::string location_;
  std::string where_;
  std::vector<std::pair<std::string, std::string>> names_;
  int unnamed_ = 0;
};

class Writer {
 public:
  Writer(const Schema& schema, const ConfigurationOptions& options) : schema_(schema), options_(options) {}

  Configuration write() {
    made_.warnings = schema_.warnings;
    add_head();
    for (const Table& table : schema_.tables) {
      const auto is_impossible = [](const Column& column) {
        return plain(column.name) != column.name || column.name.empty();
      };
      if (table.name.empty() || plain(table.name) != table.name || std::ranges::any_of(table.columns, is_impossible)) {
        made_.warnings.push_back(
            fmt::format("the table {} is left out: its name, or that of a column, has control characters",
                        config::quote(plain(table.name))));
      } else if (!paths_.insert("/" + segment_of(table.name)).second) {
        made_.warnings.push_back(
            fmt::format("the table {} is left out: another one has the path /{}", table.name, segment_of(table.name)));
      } else {
        add_table(table);
      }
    }
    return std::move(made_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    made_.text += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  void add_head() {
    line("[server]");
    line("listen = [{}]", config::quote(options_.listen));
    if (options_.is_local) line("hosts = [\"localhost\", \"127.0.0.1\", \"::1\"]  # others that clients may ask for");
    line("same_origin = true  # pages of other origins may not write");
    line("\n[admin]\nlisten = {}", config::quote(options_.admin));
    line("\n[database.main]\nurl = {}", config::quote(options_.url));
    line("\n# The description for clients, and the page that shows it.");
    line("[openapi]\ntitle = {}\nexplorer = \"/\"", config::quote(plain(options_.title)));
    line(
        "\n# For tokens, run `sluice keys --kid tokens`. With `public = true`, [openapi] or an endpoint stays open.\n"
        "#\n"
        "# [policy.tokens]\n"
        "# type = \"jwt\"\n"
        "# jwks = \"tokens.jwks.json\"\n"
        "#\n"
        "# [defaults]\n"
        "# use = [\"tokens\"]");
  }

  void add_comments(const Table& table) {
    if (!table.comment.empty()) line("# {}", plain(table.comment));
    for (const Column& column : table.columns) {
      if (column.comment.empty() && column.labels.empty()) continue;
      const bool has_both = !column.comment.empty() && !column.labels.empty();
      line("# {}: {}{}{}", column.name, plain(column.comment), has_both ? "; " : "", plain(column.labels));
    }
  }

  // A dot would stand between a schema and a table.
  [[nodiscard]] bool is_written(const Table& table) const {
    return options_.writes && table.is_writable && !table.name.contains('.');
  }

  void add_table(const Table& table) {
    const std::string path = "/" + segment_of(table.name);
    const auto key = table.key();
    Place object;
    for (const Column* const column : key) object.add(*column);
    made_.text += '\n';
    add_comments(table);
    line("[[endpoint]]");
    made_.paths.push_back(path);
    line("path = {}", config::quote(path));
    if (!table.comment.empty()) line("description = {}", config::quote(plain(table.comment)));
    line("get = {}", toml("SELECT " + columns_of(table) + " FROM " + table.sql));
    add_list(table, {});
    if (is_written(table)) add_post(table, object);
    if (!key.empty()) {
      line("\n[[endpoint]]");
      line("path = {}", config::quote(path + object.path()));
      line("returns = \"object\"");
      line("get = {}", toml("SELECT " + columns_of(table) + " FROM " + table.sql + object.where()));
      if (is_written(table)) add_changes(table, object);
    }
    for (const Reference& reference : schema_.references) {
      if (reference.parent == table.name) add_children(table, reference);
    }
  }

  void add_list(const Table& table, const std::vector<std::string>& fixed) {
    const auto is_fixed = [&](const Column& column) { return std::ranges::find(fixed, column.name) != fixed.end(); };
    const auto sorts = names_of(table, is_listed);
    const auto filters = names_of(table, [&](const Column& column) {
      return is_listed(column) && !is_fixed(column) && !api::query::is_reserved(column.name);
    });
    const auto texts = names_of(table, [](const Column& column) { return column.is_text; });
    std::vector<std::string> order;
    for (const Column* const column : table.key()) order.push_back(column->name);
    // Without a key, rows that are equal in all columns may change places: nobody can tell.
    const bool has_key = !order.empty();
    if (!has_key && sorts.size() == table.columns.size()) order = sorts;
    if (order.empty() || std::ranges::any_of(order, [](const auto& name) { return name.contains(','); })) return;
    line("[endpoint.list]");
    if (!filters.empty()) line("filter = {}", list_of(filters));
    if (!texts.empty()) line("search = {}", list_of(texts));
    if (!sorts.empty()) line("sort = {}", list_of(sorts));
    line("order = {}", config::quote(fmt::format("{}", fmt::join(order, ","))));
    line("count = true");
    if (!has_key) line("cursors = false  # there is no key, so pages are by offset\nmax_offset = 1000000");
  }

  // The columns that a body may have. One with a dot in its name would be a member within an object.
  void add_body(const Table& table, const Place& object, bool has_keys) {
    for (const Column& column : table.columns) {
      if (has_keys && column.key_place != 0) {
        line("columns.{} = {{ key = true, from = {} }}", toml_key(column.name),
             config::quote(fmt::format("path.{}", object.of(column.name))));
      } else if (!column.is_generated && !column.name.contains('.')) {
        line("columns.{} = {{}}", toml_key(column.name));
      }
    }
  }

  void add_post(const Table& table, const Place& object) {
    line("[endpoint.post]");
    line("table = {}", config::quote(table.name));
    add_body(table, object, false);
    line("returning = {}", toml(columns_of(table)));
    if (!object.path().empty() && object.is_plain()) {
      line("location = {}", config::quote("/" + segment_of(table.name) + object.location()));
    }
  }

  void add_changes(const Table& table, const Place& object) {
    const auto may_change = [](const Column& column) {
      return column.key_place == 0 && !column.is_generated && !column.name.contains('.');
    };
    if (!table.key().front()->is_hidden && std::ranges::any_of(table.columns, may_change)) {
      line("[endpoint.patch]");
      line("table = {}", config::quote(table.name));
      add_body(table, object, true);
      line("returning = {}", toml(columns_of(table)));
    }
    line("[endpoint.delete]");
    line("sql = {}", toml("DELETE FROM " + table.sql + object.where()));
  }

  void add_children(const Table& parent, const Reference& reference) {
    const Table& child = *schema_.find(reference.child);
    Place place;
    for (const std::string& name : reference.columns) {
      Column column = *std::ranges::find(child.columns, name, &Column::name);
      place.add(column);
    }
    // Two references to one table differ by their columns.
    const auto is_rival = [&](const Reference& other) {
      return other.parent == reference.parent && other.child == reference.child && other.columns != reference.columns;
    };
    std::string name = segment_of(reference.child);
    if (std::ranges::any_of(schema_.references, is_rival)) {
      name += segment_of(fmt::format("_by_{}", fmt::join(reference.columns, "_")));
    }
    const std::string path = "/" + segment_of(parent.name) + place.path() + "/" + name;
    if (!paths_.insert(path).second) return;
    line("\n[[endpoint]]");
    line("path = {}", config::quote(path));
    line("get = {}", toml("SELECT " + columns_of(child) + " FROM " + child.sql + place.where()));
    add_list(child, reference.columns);
  }

  const Schema& schema_;
  const ConfigurationOptions& options_;
  Configuration made_;
  std::set<std::string> paths_;
};

}  // namespace

Configuration make_configuration(const Schema& schema, const ConfigurationOptions& options) {
  return Writer(schema, options).write();
}

}  // namespace sluice::app::init
