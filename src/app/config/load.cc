#include "app/config/load.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include <fmt/format.h>

#include "api/schema/schema.h"
#include "app/config/check.h"
#include "app/config/defaults.h"
#include "app/config/listen.h"
#include "app/config/reader.h"
#include "core/address.h"
#include "core/whole_file.h"

namespace sluice::app::config {
namespace {

// Larger files are refused and are not read to the end.
constexpr std::size_t largest_file = 4 << 20;
constexpr std::size_t largest_page = 256 << 10;

std::string from_folder(const std::filesystem::path& folder, std::string_view path) {
  return (folder / std::filesystem::path(path)).string();  // an absolute path is unchanged
}

// "sqlite:films.db?mode=ro" has a relative path; "sqlite::memory:" and "sqlite:file:..." are left unchanged.
void resolve_database(std::string& url, const std::filesystem::path& folder) {
  constexpr std::string_view scheme = "sqlite:";
  std::string_view rest = std::string_view(url).substr(scheme.size());
  if (rest.starts_with(':') || rest.starts_with("file:")) return;
  url = std::string(scheme) + from_folder(folder, rest);
}

void resolve_listen(Located<std::string>& listen, const std::filesystem::path& folder,
                    std::vector<Diagnostic>& errors) {
  constexpr std::string_view scheme = "unix:";
  const std::string_view written = Listen::parse(listen.value).address;
  if (!written.starts_with(scheme) || written.size() == scheme.size()) return;
  const std::string path = from_folder(folder, written.substr(scheme.size()));
  const std::string address = std::string(scheme) + path;
  listen.value.replace(listen.value.size() - written.size(), written.size(), address);
  if (core::Address::parse(address)) return;
  errors.push_back(
      {listen.position, "the path of a unix socket has at most 107 bytes", fmt::format("it would be {}", path)});
}

// Whether a path is the folder or is below it.
bool is_within(std::string_view path, std::string_view folder) {
  if (folder.ends_with('/')) folder.remove_suffix(1);
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// The policies of a folder protect nothing if other [[files]] serve the same folder at another path without them. (At
// the same path the more specific route wins, so "/" and "/private" may serve nested folders.)
void check_ways_around(const Options& options, std::vector<Diagnostic>& errors) {
  const std::vector<files::FilesOptions>& all = options.files;
  std::vector<std::string> roots;
  for (const auto& files : all) {
    std::error_code error;
    roots.push_back(std::filesystem::canonical(files.root.value, error).string());
    if (error) return;  // already reported
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto obeys = [&](const files::FilesOptions& other) {
      return std::ranges::all_of(all[i].use, [&](const auto& policy) {
        const auto index = options.find_policy(policy.value);
        if (index && !options.policies[*index].value.kind().is_guard) return true;
        return std::ranges::find(other.use, policy.value, &Located<std::string>::value) != other.use.end();
      });
    };
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (obeys(all[k]) || !is_within(roots[i], roots[k])) continue;
      const std::string below = roots[i].substr(roots[k].ends_with('/') ? roots[k].size() - 1 : roots[k].size());
      const std::string path = (all[k].path.value == "/" ? "" : all[k].path.value) + below;
      if (std::ranges::any_of(all, [&](const auto& one) {
            return obeys(one) && one.host.value == all[k].host.value && is_within(path, one.path.value);
          })) {
        continue;
      }
      errors.push_back(
          {all[i].root.position,
           fmt::format("the files in line {} serve this folder too, at {}, without the policies that stand here",
                       all[k].root.position.line, path.empty() ? "/" : path),
           "move it out of theirs"});
    }
  }
}

// [[files]] must not serve the files that clients upload to a store: it would not apply the store's policies, and would
// derive media types from file names.
void check_stores(const Options& options, std::vector<Diagnostic>& errors) {
  const auto place = [](const std::string& path) {
    std::error_code error;
    return std::filesystem::weakly_canonical(path, error).string();
  };
  for (std::size_t i = 0; i < options.stores.size(); ++i) {
    const auto& path = options.stores[i].value.path;
    const std::string own = place(path.value);
    for (std::size_t k = 0; k < i; ++k) {
      const std::string other = place(options.stores[k].value.path.value);
      if (!is_within(own, other) && !is_within(other, own)) continue;
      errors.push_back(
          {path.position, fmt::format("[store.{}] lies in the same folder", options.stores[k].name.value)});
    }
    for (const auto& files : options.files) {
      if (!is_within(own, place(files.root.value))) continue;
      errors.push_back({path.position, fmt::format("the files in line {} serve this folder", files.root.position.line),
                        "move it out of theirs"});
    }
  }
}

void read_schema(const api::EndpointOptions& endpoint, Located<JsonOrFile>& schema, const std::filesystem::path& folder,
                 std::vector<Diagnostic>& errors) {
  auto& [json, file] = schema.value;
  if (!file.empty()) {
    const std::string path = from_folder(folder, file);
    auto text = core::read_whole_file(path, largest_file);
    if (!text) {
      errors.push_back(
          {schema.position, fmt::format("the schema {}", text.error()), fmt::format("it would be {}", path)});
      return;
    }
    json = std::move(*text);
  }
  const auto parsed = api::schema::Schema::parse(json);
  if (parsed) return;
  for (const auto& [pointer, reason] : parsed.error()) {
    errors.push_back(
        {schema.position, fmt::format("endpoint \"{}\": the schema{}{}{}{}: {}", endpoint.path.value,
                                      file.empty() ? "" : " ", file, pointer.empty() ? "" : ", at ", pointer, reason)});
  }
}

void read_users(gateway::basic::Options& basic, const std::filesystem::path& folder, std::vector<Diagnostic>& errors) {
  const std::string path = from_folder(folder, basic.file->value);
  const auto text = core::read_whole_file(path, largest_file);
  const std::string wrong = text ? basic.add_users(*text) : text.error();
  if (!wrong.empty()) errors.push_back({basic.file->position, fmt::format("{}: {}", basic.file->value, wrong)});
}

// 404.html is for a status, 4xx.html for its class.
int status_of_page(std::string_view name) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.size() != 8 || !name.ends_with(".html") || (name[0] != '4' && name[0] != '5')) return 0;
  const int first = name[0] - '0';
  if (name[1] == 'x' && name[2] == 'x') return first;
  return digit(name[1]) && digit(name[2]) ? first * 100 + (name[1] - '0') * 10 + (name[2] - '0') : 0;
}

void read_error_pages(ServerOptions& server, const std::filesystem::path& folder, std::vector<Diagnostic>& errors) {
  const Located<std::string>& pages = *server.error_pages;
  const std::string path = from_folder(folder, pages.value);
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const int status = status_of_page(at->path().filename().string());
    if (status == 0) continue;
    auto text = core::read_whole_file(at->path().string(), largest_page);
    if (!text) return errors.push_back({pages.position, text.error()});
    server.own_error_pages.push_back({.of = status, .html = std::move(*text)});
  }
  if (error) {
    errors.push_back({pages.position, fmt::format("the error pages cannot be read: {}", error.message()),
                      fmt::format("the folder would be {}", path)});
  } else if (server.own_error_pages.empty()) {
    errors.push_back({pages.position, "the folder has no page", "name pages 404.html, 4xx.html or 5xx.html"});
  }
}

void resolve_paths(Options& options, const std::filesystem::path& folder, std::vector<Diagnostic>& errors) {
  for (auto& listen : options.server.listen) resolve_listen(listen, folder, errors);
  resolve_listen(options.admin.listen, folder, errors);
  if (options.server.error_pages) read_error_pages(options.server, folder, errors);
  if (options.server.tls) {
    TlsOptions& tls = *options.server.tls;
    std::vector<std::string*> paths = {&tls.cert.value, &tls.key.value, &tls.client_ca.value};
    for (CertificateOptions& one : tls.certificates) paths.insert(paths.end(), {&one.cert.value, &one.key.value});
    for (std::string* path : paths) {
      if (!path->empty()) *path = from_folder(folder, *path);
    }
  }
  for (auto& policy : options.policies) {
    if (auto& basic = policy.value.of<gateway::basic::Options>(); basic.file) read_users(basic, folder, errors);
    gateway::jwt::Options& jwt = policy.value.of<gateway::jwt::Options>();
    for (auto* path : {&jwt.secret_file, &jwt.public_key, &jwt.jwks, &jwt.revocations}) {
      if (*path && !(*path)->value.empty()) (*path)->value = from_folder(folder, (*path)->value);
    }
    // Policies with the same file share it, also if they write its path in different ways.
    if (jwt.revocations) {
      std::string& path = jwt.revocations->value;
      path = std::filesystem::path(path).lexically_normal().string();
    }
    if (!jwt.jwks_ca.value.empty()) jwt.jwks_ca.value = from_folder(folder, jwt.jwks_ca.value);
  }
  for (auto& upstream : options.upstreams) {
    if (!upstream.tls) continue;
    for (std::string* path : {&upstream.tls->ca.value, &upstream.tls->cert.value, &upstream.tls->key.value}) {
      if (!path->empty()) *path = from_folder(folder, *path);
    }
  }
  for (auto& database : options.databases) {
    if (database.value.is_sqlite()) resolve_database(database.value.url.value, folder);
    database.value.folder = folder.string();
  }
  for (auto& endpoint : options.endpoints) {
    for (const auto& [method, writing] : endpoint.writing_methods()) {
      if (writing->schema) read_schema(endpoint, *writing->schema, folder, errors);
    }
  }
  for (auto& store : options.stores) {
    if (store.value.path.value.empty()) continue;
    store.value.path.value = from_folder(folder, store.value.path.value);
    std::error_code error;
    if (std::filesystem::exists(store.value.path.value, error) &&
        !std::filesystem::is_directory(store.value.path.value, error)) {
      errors.push_back(
          {store.value.path.position, "this is no folder", fmt::format("it would be {}", store.value.path.value)});
    }
  }
  for (auto& files : options.files) {
    if (files.root.value.empty()) continue;
    files.root.value = from_folder(folder, files.root.value);
    std::error_code error;
    if (std::filesystem::is_directory(files.root.value, error)) {
      if (!files.fallback || files.fallback->value.empty()) continue;
      const std::string fallback = files.root.value + "/" + files.fallback->value;
      if (!std::filesystem::is_regular_file(fallback, error)) {
        errors.push_back({files.fallback->position, "there is no such file", fmt::format("it would be {}", fallback)});
      }
      continue;
    }
    errors.push_back({files.root.position,
                      fmt::format("the folder cannot be served: {}", error ? error.message() : "it is not a folder"),
                      fmt::format("it would be {}", files.root.value)});
  }
  check_ways_around(options, errors);
  check_stores(options, errors);
}

Config read(Source source, const Environment& environment, std::string_view database_url,
            std::vector<Diagnostic>& errors) {
  Config config{std::move(source), {}};
  auto document = parse_document(config.source, errors);
  if (!document) return config;
  substitute(*document, environment, config.source, errors);
  Reader(errors).read(*document, config.options);
  apply_defaults(config.options, errors);
  for (auto& database : config.options.databases) {
    if (!database_url.empty()) database.value.url.value = database_url;
  }
  check(config.options, config.source, environment, errors);
  return config;
}

}  // namespace

std::expected<Config, Errors> outcome(Examined examined) {
  auto& [config, errors] = examined;
  if (errors.empty()) return std::move(config);
  const auto identity = [](const Diagnostic& one) { return std::tie(one.position, one.message); };
  std::ranges::sort(errors, {}, identity);
  // An error in [defaults] was found again for each table.
  const auto repeated = std::ranges::unique(errors, {}, identity);
  errors.erase(repeated.begin(), repeated.end());
  return std::unexpected(Errors{std::move(config.source), std::move(errors)});
}

std::optional<std::string> process_environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::expected<Config, Errors> parse(Source source, const Environment& environment) {
  Examined examined;
  examined.config = read(std::move(source), environment, {}, examined.errors);
  return outcome(std::move(examined));
}

std::expected<Source, Errors> read_source(const std::string& path) {
  auto text = core::read_whole_file(path, largest_file);
  if (!text) return std::unexpected(Errors{Source(path, ""), {{{}, text.error()}}});
  return Source(path, std::move(*text));
}

Examined examine(const std::string& path, const Environment& environment, std::string_view database_url) {
  auto source = read_source(path);
  if (!source) return {{std::move(source.error().source), {}}, std::move(source.error().list)};
  Examined examined;
  examined.config = read(std::move(*source), environment, database_url, examined.errors);
  resolve_paths(examined.config.options, std::filesystem::path(path).parent_path(), examined.errors);
  return examined;
}

std::expected<Config, Errors> load(const std::string& path, const Environment& environment,
                                   std::string_view database_url) {
  return outcome(examine(path, environment, database_url));
}

}  // namespace sluice::app::config
