#include "app/components/components.h"

#include <stdexcept>

#include <sys/stat.h>

#include "app/components/resident/resident_keys.h"
#include "app/config/difference.h"

namespace sluice::app {
namespace {

Readings labelled(Readings readings, std::string_view name, std::string_view value) {
  Readings all;
  append(all, std::move(readings), label(name, value));
  return all;
}

}  // namespace

FileId FileId::of(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {.device = found.st_dev, .inode = found.st_ino};
}

// ---- [database.NAME] ----

std::shared_ptr<sql::Database> DatabaseComponent::make(const core::Here& here, const Parts&) const {
  auto opened = sql::open_database(options.value, here.reactor, here.mailbox, here.threads, shared.get());
  if (!opened) throw std::runtime_error("database \"" + options.name.value + "\": " + opened.error().message);
  struct Owner {
    std::shared_ptr<const DatabaseComponent> component;  // the connections use its shared half
    std::unique_ptr<sql::Database> database;
  };
  auto owner = std::make_shared<Owner>(shared_from_this(), std::move(*opened));
  sql::Database* const made = owner->database.get();
  return {std::move(owner), made};
}

Readings DatabaseComponent::readings_of(sql::Database& database) const {
  Readings all;
  for (Reading& reading : database.readings()) {
    const bool is_pool = reading.name.starts_with("db_client_connection_");  // named by OpenTelemetry
    append(all, {std::move(reading)},
           label(is_pool ? "db_client_connection_pool_name" : "database", options.name.value));
  }
  return all;
}

// ---- [store.NAME] ----

bool StoreComponent::is_same(const StoreComponent& other) const {
  return has_files_ == other.has_files_ && config::same(options, other.options);
}

bool StoreComponent::adopts(const StoreComponent& before) const { return config::same(options, before.options); }

std::shared_ptr<files::Store> StoreComponent::make(const core::Here& here, const Parts&) const {
  return std::make_shared<files::Store>(options.name.value, options.value, here.reactor, here.mailbox, here.threads);
}

Readings StoreComponent::readings_of(files::Store& store) const {
  Readings all;
  if (has_files_) append(all, store.files().counters().readings());
  append(all, store.counters().readings(), label("store", options.name.value));
  return all;
}

// ---- [[files]] ----

FilesComponent::FilesComponent(files::FilesOptions of, std::vector<std::string> api_paths)
    : options(std::move(of)), api_paths_(std::move(api_paths)), root_(FileId::of(options.root.value)) {}

bool FilesComponent::adopts(const FilesComponent& before) const {
  auto as_before = options;
  as_before.use = before.options.use;  // of the route
  as_before.is_public = before.options.is_public;
  return root_ == before.root_ && config::same(as_before, before.options);
}

std::shared_ptr<files::StaticFiles> FilesComponent::make(const core::Here& here, const Parts&) const {
  auto files = std::make_shared<files::StaticFiles>(options, here.reactor, here.mailbox, here.threads);
  files->set_api_paths(api_paths_);
  return files;
}

// ---- Feeds of changes ----

bool FeedComponent::is_same(const FeedComponent& other) const {
  return options.path == other.options.path && options.database == other.options.database &&
         config::same(options.options, other.options.options) && config::same(options.require, other.options.require) &&
         config::same(options.policies, other.options.policies);
}

std::shared_ptr<api::changes::Feed> FeedComponent::make(const core::Here& here, const Parts&) const {
  const api::changes::Feed::Limits limits{.events = options.options.keep, .bytes = options.options.keep_bytes};
  return std::make_shared<api::changes::Feed>(here.reactor, options.boot, limits);
}

Readings FeedComponent::readings_of(api::changes::Feed& feed) const {
  return labelled(feed.counters.readings(), "http_route", options.path);
}

// ---- [[websocket]] ----

bool WebSocketComponent::is_same(const WebSocketComponent& other) const {
  return config::same(options, other.options) && config::same(policies, other.policies);
}

std::shared_ptr<http::websocket::Endpoint> WebSocketComponent::make(const core::Here&, const Parts& parts) const {
  const auto channels = parts.find(channels_.get());
  // Conversations keep the endpoint, which keeps the channels.
  return {new http::websocket::Endpoint(options, channels->echo, channels->pool),
          [channels](const http::websocket::Endpoint* endpoint) { delete endpoint; }};
}

// ---- [[upstream]] ----

std::shared_ptr<gateway::Upstream> UpstreamComponent::make(const core::Here& here, const Parts&) const {
  return std::make_shared<gateway::Upstream>(here.reactor, here.mailbox, &here.mesh, shared);
}

bool UpstreamComponent::adopts(const UpstreamComponent& before) const { return shared->cores == before.shared->cores; }

// ---- Keys at a URL ----

std::shared_ptr<gateway::jwt::KeySource> KeySourceComponent::make(const core::Here& here, const Parts&) const {
  return gateway::jwt::KeySource::make(shared, here.reactor, here.mailbox, here.mesh, here.threads);
}

Readings KeySourceComponent::readings_of(gateway::jwt::KeySource& source) const {
  return labelled(source.readings(), "url", source.url().name);
}

// ---- [[resident]] ----

bool ResidentComponent::is_same(const ResidentComponent& other) const {
  auto as_other = options;
  as_other.use = other.options.use;  // of its routes, not of the table
  as_other.is_public = other.options.is_public;
  const auto id_of = [](const auto& changes) { return changes ? changes->statement.id : sql::StatementId{}; };
  return database == other.database && config::same(as_other, other.options) &&
         plan->statement.id == other.plan->statement.id && id_of(plan->changes) == id_of(other.plan->changes);
}

std::shared_ptr<api::resident::Resident> ResidentComponent::make(const core::Here& here, const Parts&) const {
  return std::make_shared<api::resident::Resident>(plan, first, here.reactor, here.mailbox, here.threads, &here.mesh);
}

Readings ResidentComponent::readings_of(api::resident::Resident& resident) const {
  return labelled(resident.counters().readings(), "resident", plan->name);
}

// ---- [policy.NAME] ----

bool PolicyComponent::is_same(const PolicyComponent& other) const {
  return options.options.name.value == other.options.options.name.value &&
         config::same(options.options.value.without_keys(), other.options.options.value.without_keys()) &&
         options.table == other.options.table && options.source == other.options.source &&
         options.upstream == other.options.upstream && options.revocations == other.options.revocations;
}

std::shared_ptr<gateway::Policy> PolicyComponent::make(const core::Here& here, const Parts& parts) const {
  const auto& [policy, keys, limit, table, source, upstream, revocations] = options;
  return gateway::make_policy(policy.value,
                              {.name = policy.name.value,
                               .reactor = here.reactor,
                               .mailbox = here.mailbox,
                               .mesh = here.mesh,
                               .threads = here.threads,
                               .keys = keys,
                               .source = parts.find(source.get()),
                               .limit = limit,
                               .table = table ? std::make_unique<ResidentKeys>(parts.find(table.get())) : nullptr,
                               .revocations = revocations,
                               .upstream = parts.find(upstream.get()),
                               .shared_upstream = upstream ? upstream->shared : nullptr});
}

Readings PolicyComponent::readings_of(gateway::Policy& policy) const {
  return labelled(policy.readings(), "policy", options.options.name.value);
}

// ---- [compression] ----

bool CompressionComponent::is_same(const CompressionComponent& other) const {
  return config::first_difference(options, other.options).empty();
}

std::shared_ptr<http::compress::Compression> CompressionComponent::make(const core::Here& here, const Parts&) const {
  return std::make_shared<http::compress::Compression>(options, here.reactor, here.mailbox, here.threads);
}

Readings CompressionComponent::readings_of(http::compress::Compression& compression) const {
  return compression.counters().readings();
}

}  // namespace sluice::app
