#include "app/commands/start.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <unistd.h>

#include "app/commands/exit_code.h"
#include "app/config/text.h"
#include "app/init/schema.h"
#include "base/contains.h"
#include "core/address.h"

namespace sluice::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view sqlite_scheme = "sqlite:";
constexpr std::array<std::string_view, 3> sqlite_endings{".db", ".sqlite", ".sqlite3"};

bool is_postgres_url(std::string_view text) {
  return text.starts_with("postgres://") || text.starts_with("postgresql://");
}

// Whether the file begins as those of SQLite do.
bool is_sqlite_file(const fs::path& path) {
  constexpr std::string_view magic("SQLite format 3\0", 16);
  std::array<char, magic.size()> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), head.size());
  const auto size = static_cast<std::size_t>(file.gcount());
  return std::string_view(head.data(), size) == magic;
}

bool has_sqlite_ending(std::string_view name) {
  return std::ranges::any_of(sqlite_endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// Neither the password nor parameters, such as `sslpassword`.
bool has_password(std::string_view url) {
  if (!is_postgres_url(url)) return false;
  const std::string_view rest = url.substr(url.find("//") + 2);
  const std::size_t at = rest.substr(0, rest.find('/')).rfind('@');
  return (at != rest.npos && rest.substr(0, at).contains(':')) || rest.contains("password=");
}

// The name of the file films.db, or the last part of the path of a URL, without its ending: films.
std::string title_of(std::string_view url) {
  url = url.substr(0, url.find('?'));
  std::string title = fs::path(url.substr(url.find(':') + 1)).stem().string();
  return title.empty() ? "API" : title;
}

// The address to listen on. Everybody who reaches such a server may read all of it, so that is this machine alone.
std::expected<core::Address, std::string> loopback(const std::string& listen, std::string_view otherwise) {
  auto address = core::Address::parse(listen);
  if (!address) {
    return std::unexpected(fmt::format("\"{}\" is no address to listen on, as 127.0.0.1:8080 is", listen));
  }
  if (address->family() != AF_UNIX && !address->is_loopback()) {
    return std::unexpected(
        fmt::format("{} is not on the loopback, so others could reach it without a policy; {}", listen, otherwise));
  }
  return *std::move(address);
}

std::expected<init::Schema, std::string> schema_of(const std::string& url) {
  sql::DatabaseOptions options;
  options.url.value = url;
  options.folder = ".";
  auto schema = init::read_schema(options);
  if (!schema) return std::unexpected("the database cannot be read: " + schema.error());
  if (schema->tables.empty()) return std::unexpected("the database has no tables");
  return schema;
}

std::expected<void, std::string> keep_only(init::Schema& schema, const std::vector<std::string>& tables) {
  for (const std::string& name : tables) {
    if (schema.find(name) != nullptr) continue;
    std::vector<std::string_view> names;
    for (const init::Table& table : schema.tables) names.push_back(table.name);
    const std::string meant = config::did_you_mean(name, names);
    return std::unexpected(fmt::format("there is no table \"{}\"{}{}", name, meant.empty() ? "" : "; ", meant));
  }
  std::erase_if(schema.tables, [&](const init::Table& table) { return !contains(tables, table.name); });
  std::erase_if(schema.references, [&](const init::Reference& reference) {
    return !contains(tables, reference.parent) || !contains(tables, reference.child);
  });
  return {};
}

// For `sluice init` without an argument.
std::expected<std::string, std::string> find_database() {
  if (const char* const url = std::getenv("DATABASE_URL"); url != nullptr && *url != '\0') return url;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(".")) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && has_sqlite_ending(name) && is_sqlite_file(entry.path())) files.push_back(name);
  }
  if (files.size() == 1) return files.front();
  std::ranges::sort(files);
  return std::unexpected(
      files.empty() ? "there is no SQLite file here, and no DATABASE_URL; name a database: sluice init films.db, "
                      "sluice init postgres://localhost/films"
                    : fmt::format("there are several SQLite files: {}; name one", fmt::join(files, ", ")));
}

// How the URL stands in a configuration in this folder.
std::string written_url(const std::string& url, const fs::path& folder) {
  if (has_password(url)) return "${DATABASE_URL}";
  if (is_postgres_url(url)) return fmt::format("${{DATABASE_URL:-{}}}", url);
  const fs::path file = url.substr(sqlite_scheme.size());
  const fs::path relative = file.lexically_relative(fs::absolute(folder).lexically_normal());
  const bool is_below = !relative.empty() && *relative.begin() != "..";
  return std::string(sqlite_scheme) + (is_below ? relative : file).string();
}

std::expected<void, std::string> write_new_file(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0 && errno == EEXIST) {
    return std::unexpected(fmt::format("{} is there already, and is left as it is; --output names another file", path));
  }
  const bool is_written = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (file >= 0) ::close(file);
  if (is_written) return {};
  return std::unexpected(fmt::format("{} cannot be written: {}", path, std::strerror(error)));
}

}  // namespace

Served kind_of(const std::string& argument) {
  if (is_postgres_url(argument) || argument.starts_with(sqlite_scheme)) return Served::database;
  std::error_code error;
  if (fs::is_directory(argument, error)) return Served::folder;
  return has_sqlite_ending(argument) || is_sqlite_file(argument) ? Served::database : Served::configuration;
}

std::expected<std::string, std::string> database_url(const std::string& argument) {
  if (is_postgres_url(argument)) return argument;
  const std::string file = argument.starts_with(sqlite_scheme) ? argument.substr(sqlite_scheme.size()) : argument;
  std::error_code error;
  if (!fs::exists(file, error)) return std::unexpected(fmt::format("there is no file {}", file));
  if (!is_sqlite_file(file)) return std::unexpected(fmt::format("{} is not a SQLite database", file));
  return std::string(sqlite_scheme) + fs::absolute(file).lexically_normal().string();
}

std::expected<init::Configuration, std::string> serve_database(const std::string& argument,
                                                               const StartCommand& command) {
  const auto address = loopback(command.listen, "write a configuration by `sluice init`, and set policies there");
  if (!address) return std::unexpected(address.error());
  const auto url = database_url(argument);
  if (!url) return std::unexpected(url.error());
  const auto schema = schema_of(*url);
  if (!schema) return std::unexpected(schema.error());
  return init::make_configuration(*schema, {.listen = command.listen,
                                            .admin = "127.0.0.1:0",
                                            .url = *url,
                                            .title = title_of(*url),
                                            .writes = command.writes,
                                            .is_local = address->family() != AF_UNIX});
}

std::expected<std::string, std::string> serve_folder(const std::string& folder, const StartCommand& command) {
  const auto address = loopback(command.listen, "write a configuration with [[files]]");
  if (!address) return std::unexpected(address.error());
  const bool is_local = address->family() != AF_UNIX;
  return fmt::format("[server]\nlisten = [{}]\n{}\n[admin]\nlisten = \"\"\n\n[[files]]\npath = \"/\"\nroot = {}\n",
                     config::quote(command.listen), is_local ? "hosts = [\"localhost\", \"127.0.0.1\", \"::1\"]\n" : "",
                     config::quote(fs::absolute(folder).lexically_normal().string()));
}

std::string nothing_to_serve() {
  return "sluice: there is no sluice.toml here. `sluice serve` can serve\n"
         "  films.db, postgres://localhost/films   all tables of a database, for a first look\n"
         "  public/                                the files of a folder\n"
         "  sluice.toml                            a configuration; `sluice init films.db` writes one to start from\n";
}

int write_configuration(const StartCommand& command, std::FILE* out, std::FILE* errors) {
  const auto failed = [errors](const std::string& why) {
    fmt::print(errors, "sluice: {}\n", why);
    return exit_failure;
  };
  const auto found =
      command.database.empty() ? find_database() : std::expected<std::string, std::string>(command.database);
  if (!found) return failed(found.error());
  if (fs::exists(command.output)) {  // before the database is asked
    return failed(write_new_file(command.output, "").error());
  }
  const auto url = database_url(*found);
  if (!url) return failed(url.error());
  auto schema = schema_of(*url);
  if (!schema) return failed(schema.error());
  if (!command.tables.empty()) {
    if (auto kept = keep_only(*schema, command.tables); !kept) return failed(kept.error());
  }
  const fs::path folder = fs::absolute(command.output).parent_path();
  const auto made = init::make_configuration(
      *schema, {.url = written_url(*url, folder), .title = title_of(*url), .writes = command.writes});
  if (auto written = write_new_file(command.output, made.text); !written) return failed(written.error());
  for (const std::string& warning : made.warnings) fmt::print(errors, "warning: {}\n", warning);
  fmt::print(out, "{}: tables and views: {}\n", command.output, made.paths.size());
  if (has_password(*url)) {
    fmt::print(out, "The URL has a password, so it is not in the file: set DATABASE_URL to it.\n");
  }
  fmt::print(out, "next: sluice serve{}\n", command.output == "sluice.toml" ? "" : " " + command.output);
  return exit_ok;
}

void open_browser(const std::string& url) {
  const bool has_desktop = std::getenv("DISPLAY") != nullptr || std::getenv("WAYLAND_DISPLAY") != nullptr;
  if (!has_desktop) return;
  std::string program = "xdg-open";
  std::string argument = url;
  std::array<char*, 3> arguments{program.data(), argument.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0);
  }
  posix_spawnattr_t attributes;  // the child must not have this process's blocked signals
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  (void)::posix_spawnp(&child, program.c_str(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
}

}  // namespace sluice::app
