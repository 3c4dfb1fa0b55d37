#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/changes/feed.h"
#include "api/changes/options.h"
#include "api/resident/resident.h"
#include "app/components/component.h"
#include "app/components/resident/refresher.h"
#include "app/options.h"
#include "base/declare.h"
#include "base/log.h"
#include "files/options.h"
#include "files/static_files.h"
#include "files/store.h"
#include "gateway/jwt/key_source.h"
#include "gateway/jwt/keys.h"
#include "gateway/jwt/revocations.h"
#include "gateway/limits/shared.h"
#include "gateway/options.h"
#include "gateway/policy.h"
#include "gateway/proxy/upstream.h"
#include "http/compress/compression.h"
#include "http/websocket/endpoint.h"
#include "sql/database.h"
#include "sql/open.h"
#include "sql/sqlite/commit_observers.h"
#include "sql/statement_ids.h"
#include "ws/channel.h"
#include "ws/options.h"

namespace sluice::app {

// Identifies a file or a folder, also if another one takes its path.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileId&) const = default;

  // Zeros if nothing is at the path.
  [[nodiscard]] static FileId of(const std::string& path);
};

// The policies that a route uses, without their keys: new keys reach a policy that stays.
using Policies = std::vector<Named<gateway::PolicyOptions>>;

// [database.NAME]. Not quite immutable: the part that all cores share is set before the cores get it. Databases that
// differ only in what Database::resize() changes are the same.
class DatabaseComponent final : public ComponentOf<DatabaseComponent, sql::Database>,
                                public std::enable_shared_from_this<DatabaseComponent> {
 public:
  explicit DatabaseComponent(Named<sql::DatabaseOptions> of)
      : options(std::move(of)),
        trouble("database " + options.name.value),
        write_trouble("database " + options.name.value + ", writing") {}

  const Named<sql::DatabaseOptions> options;
  FileId file;                                      // of SQLite; zeros for PostgreSQL
  bool writes = false;                              // SQLite: this process may write to the database
  std::shared_ptr<sql::CommitObservers> observers;  // of the file; shared by all databases with this file
  std::shared_ptr<sql::StatementIds> ids = std::make_shared<sql::StatementIds>();
  std::shared_ptr<sql::SharedDatabase> shared;  // null before open_shared_parts(), and if nothing is shared
  // Writes can fail while reads succeed, if the disk is full or another program holds the lock.
  TroubleLog trouble;
  TroubleLog write_trouble;

 private:
  std::shared_ptr<sql::Database> make(const core::Here& here, const Parts& parts) const override;
  void retire(sql::Database& database) const override { database.retire(); }
  [[nodiscard]] bool lingers() const override { return true; }
  Readings readings_of(sql::Database& database) const override;
};

// [store.NAME]
class StoreComponent final : public ComponentOf<StoreComponent, files::Store> {
 public:
  // `has_files`: the configuration has [[files]], and then the readings have those of a folder too.
  StoreComponent(Named<files::StoreOptions> of, bool has_files) : options(std::move(of)), has_files_(has_files) {}

  [[nodiscard]] bool is_same(const StoreComponent& other) const;
  const Named<files::StoreOptions> options;

 private:
  std::shared_ptr<files::Store> make(const core::Here& here, const Parts& parts) const override;
  bool adopts(const StoreComponent& before) const override;
  Readings readings_of(files::Store& store) const override;

  const bool has_files_;
};

// [[files]]. It is another one if the path of `root` leads to another folder. If only the paths of APIs differ, it
// adopts the part of the one before, with its open files.
class FilesComponent final : public ComponentOf<FilesComponent, files::StaticFiles> {
 public:
  // `api_paths`: as for StaticFiles::set_api_paths().
  FilesComponent(files::FilesOptions of, std::vector<std::string> api_paths);

  [[nodiscard]] bool is_same(const FilesComponent& other) const {
    return adopts(other) && api_paths_ == other.api_paths_;
  }
  const files::FilesOptions options;

 private:
  std::shared_ptr<files::StaticFiles> make(const core::Here& here, const Parts& parts) const override;
  bool adopts(const FilesComponent& before) const override;
  void serve(files::StaticFiles& files) const override { files.set_api_paths(api_paths_); }
  Readings readings_of(files::StaticFiles& files) const override { return files.counters().readings(); }

  const std::vector<std::string> api_paths_;
  const FileId root_;
};

// A feed of changes of an endpoint. Its streams go on if the feed, `require` and the policies are unchanged.
class FeedComponent final : public ComponentOf<FeedComponent, api::changes::Feed> {
 public:
  struct Options {
    std::string path;
    std::string boot;  // the prefix of its event ids
    api::changes::Options options;
    OneOrMore<api::RequireOptions> require;
    Policies policies;
    std::shared_ptr<DatabaseComponent> database;
  };
  explicit FeedComponent(Options of) : options(std::move(of)) {}

  [[nodiscard]] bool is_same(const FeedComponent& other) const;
  const Options options;

 private:
  std::shared_ptr<api::changes::Feed> make(const core::Here& here, const Parts& parts) const override;
  void retire(api::changes::Feed& feed) const override { feed.drain(); }
  void drain(api::changes::Feed& feed) const override { feed.drain(); }
  Readings readings_of(api::changes::Feed& feed) const override;
};

// What all WebSocket connections of a core share.
struct WebSocketChannels {
  http::websocket::Echo echo;
  ws::ChannelPool pool;
};
class WebSocketChannelsComponent final : public ComponentOf<WebSocketChannelsComponent, WebSocketChannels> {
 public:
  [[nodiscard]] bool is_same(const WebSocketChannelsComponent&) const { return true; }

 private:
  std::shared_ptr<WebSocketChannels> make(const core::Here&, const Parts&) const override {
    return std::make_shared<WebSocketChannels>();
  }
  Readings readings_of(WebSocketChannels& channels) const override { return channels.pool.counters().readings(); }
};

// [[websocket]]. Its connections go on if the options and the policies are unchanged.
class WebSocketComponent final : public ComponentOf<WebSocketComponent, http::websocket::Endpoint> {
 public:
  WebSocketComponent(ws::WebSocketOptions of, Policies used, std::shared_ptr<const WebSocketChannelsComponent> on)
      : options(std::move(of)), policies(std::move(used)), channels_(std::move(on)) {}

  [[nodiscard]] bool is_same(const WebSocketComponent& other) const;
  const ws::WebSocketOptions options;
  const Policies policies;

 private:
  std::shared_ptr<http::websocket::Endpoint> make(const core::Here& here, const Parts& parts) const override;
  void retire(http::websocket::Endpoint& endpoint) const override { endpoint.drain(); }

  const std::shared_ptr<const WebSocketChannelsComponent> channels_;
};

// [[upstream]]. One that has other servers or another balancing adopts the part of the one before.
class UpstreamComponent final : public ComponentOf<UpstreamComponent, gateway::Upstream> {
 public:
  explicit UpstreamComponent(std::shared_ptr<gateway::SharedUpstream> of) : shared(std::move(of)) {}

  const std::shared_ptr<gateway::SharedUpstream> shared;

 private:
  std::shared_ptr<gateway::Upstream> make(const core::Here& here, const Parts& parts) const override;
  bool adopts(const UpstreamComponent& before) const override;
  void serve(gateway::Upstream& upstream) const override { upstream.serve(shared); }
  Readings readings_of(gateway::Upstream& upstream) const override { return upstream.readings(); }
};

// The keys at a `jwks_url`. Policies with the same options for them share it.
class KeySourceComponent final : public ComponentOf<KeySourceComponent, gateway::jwt::KeySource> {
 public:
  explicit KeySourceComponent(std::shared_ptr<gateway::jwt::SharedKeySource> of) : shared(std::move(of)) {}

  [[nodiscard]] bool is_same(const KeySourceComponent& other) const { return shared->is_same(*other.shared); }
  const std::shared_ptr<gateway::jwt::SharedKeySource> shared;

 private:
  std::shared_ptr<gateway::jwt::KeySource> make(const core::Here& here, const Parts& parts) const override;
  Readings readings_of(gateway::jwt::KeySource& source) const override;
};

// [[resident]]. `first` and `mark` are set once, before the cores get it, and cleared when they have it.
class ResidentComponent final : public ComponentOf<ResidentComponent, api::resident::Resident> {
 public:
  ResidentComponent(api::resident::ResidentOptions of, std::shared_ptr<const api::resident::Plan> made,
                    std::shared_ptr<DatabaseComponent> on)
      : options(std::move(of)), plan(std::move(made)), database(std::move(on)) {}

  [[nodiscard]] bool is_same(const ResidentComponent& other) const;
  const api::resident::ResidentOptions options;
  const std::shared_ptr<const api::resident::Plan> plan;
  const std::shared_ptr<DatabaseComponent> database;
  api::resident::TableVersion first;  // the first version
  Mark mark;

 private:
  std::shared_ptr<api::resident::Resident> make(const core::Here& here, const Parts& parts) const override;
  Readings readings_of(api::resident::Resident& resident) const override;
};

// [policy.NAME]. A policy that differs in its keys alone is the same; it gets the new keys.
class PolicyComponent final : public ComponentOf<PolicyComponent, gateway::Policy> {
 public:
  struct Options {
    Named<gateway::PolicyOptions> options;
    std::shared_ptr<const gateway::jwt::KeySet> keys;        // the first; null if it has none
    std::shared_ptr<gateway::limits::Shared> limit;          // null: it counts nothing
    std::shared_ptr<const ResidentComponent> table;          // that it reads; null: none
    std::shared_ptr<const KeySourceComponent> source;        // of its keys; null: they are not fetched
    std::shared_ptr<const UpstreamComponent> upstream;       // that it asks; null: none
    std::shared_ptr<gateway::jwt::Revocations> revocations;  // in its file; null: none
  };
  explicit PolicyComponent(Options of) : options(std::move(of)) {}

  [[nodiscard]] bool is_same(const PolicyComponent& other) const;
  const Options options;

 private:
  std::shared_ptr<gateway::Policy> make(const core::Here& here, const Parts& parts) const override;
  void serve(gateway::Policy& policy) const override { policy.begin(); }
  Readings readings_of(gateway::Policy& policy) const override;
};

// [compression]
class CompressionComponent final : public ComponentOf<CompressionComponent, http::compress::Compression> {
 public:
  explicit CompressionComponent(http::compress::Options of) : options(std::move(of)) {}

  [[nodiscard]] bool is_same(const CompressionComponent& other) const;
  const http::compress::Options options;

 private:
  std::shared_ptr<http::compress::Compression> make(const core::Here& here, const Parts& parts) const override;
  Readings readings_of(http::compress::Compression& compression) const override;
};

}  // namespace sluice::app
