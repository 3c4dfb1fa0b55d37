#include "app/site.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "app/config/difference.h"
#include "app/resident_keys.h"
#include "app/worker.h"
#include "base/contains.h"
#include "gateway/proxy/proxy.h"
#include "gateway/proxy/tunnel.h"
#include "http/answer_fields.h"
#include "sql/open.h"

namespace sluice::app {

namespace {

std::shared_ptr<http::compress::Compression> make_compression(Worker& worker, const Options& options) {
  if (options.compression.codings.empty()) return nullptr;
  return std::make_shared<http::compress::Compression>(options.compression, worker.reactor(), worker.mailbox(),
                                                       worker.threads());
}

std::shared_ptr<http::AnswerFields> make_answer_fields(const ServerOptions& options) {
  http::AnswerFields::List fields;
  for (const auto& header : options.headers) fields.emplace_back(header.name.value, header.value.value.value);
  http::AnswerFields::List secure;
  if (options.tls && options.tls->hsts > Duration{}) {
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(options.tls->hsts);
    secure.emplace_back("Strict-Transport-Security", "max-age=" + std::to_string(age.count()));
  }
  return std::make_shared<http::AnswerFields>(options.server_header, fields, secure);
}

// `made` is indexed like `planned`. Returns the element for the plan's `wanted`; null if absent.
template <class Made, class Planned, class Get>
Made find_made(const std::vector<Made>& made, const Planned& planned, const void* wanted, Get get) {
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (get(*planned[i]) == wanted) return made[i];
  }
  return nullptr;
}

}  // namespace

Site::Site(Worker& worker, std::shared_ptr<const Plan> plan, const Site* previous)
    : worker_(worker),
      plan_(std::move(plan)),
      generation_(previous != nullptr ? previous->generation_ + 1 : 1),
      compression_(
          previous != nullptr &&
                  config::first_difference(previous->plan_->options.compression, plan_->options.compression).empty()
              ? previous->compression_
              : make_compression(worker, plan_->options)),
      answer_fields_(make_answer_fields(plan_->options.server)),
      bindings_{std::make_shared<Binding>(worker, generation_, Plan::RouteId{0}, nullptr, everywhere(),
                                          http::Binding::Filters(), answer_fields_)},
      router_(bindings_.front()) {
  const Options& options = plan_->options;
  const Plan none;
  const Plan& before = previous != nullptr ? *previous->plan_ : none;
  core::Reactor& reactor = worker.reactor();
  // Creates the elements of `now`, but takes those that are also in `was` from `kept`, which is indexed like `was`.
  const auto take = [](const auto& now, const auto& was, const auto& kept, auto is_same, auto make) {
    std::remove_cvref_t<decltype(kept)> taken;
    for (std::size_t i = 0; i < now.size(); ++i) {
      const auto found = std::ranges::find_if(was, [&](const auto& one) { return is_same(one, now[i]); });
      taken.push_back(found != was.end() ? kept[static_cast<std::size_t>(found - was.begin())] : make(i));
    }
    return taken;
  };
  const auto is_same_object = [](const auto& one, const auto& other) { return one == other; };
  const auto says_the_same = [](const auto& one, const auto& other) { return config::same(one, other); };
  const Site& from = previous != nullptr ? *previous : *this;
  databases_ = take(plan_->databases, before.databases, from.databases_, is_same_object, [&](std::size_t i) {
    const auto& database = options.databases[i];
    auto opened = sql::open_database(database.value, reactor, worker.mailbox(), worker.threads(),
                                     plan_->databases[i]->shared.get());
    if (!opened) throw std::runtime_error("database \"" + database.name.value + "\": " + opened.error().message);
    struct Owner {
      std::shared_ptr<Plan::Database> shared;  // the connections use its shared half
      std::unique_ptr<sql::Database> database;
    };
    auto owner = std::make_shared<Owner>(plan_->databases[i], std::move(*opened));
    sql::Database* const made = owner->database.get();
    return std::shared_ptr<sql::Database>(std::move(owner), made);
  });
  stores_ = take(options.stores, before.options.stores, from.stores_, says_the_same, [&](std::size_t i) {
    const auto& store = options.stores[i];
    return std::make_shared<files::Store>(store.name.value, store.value, reactor, worker.mailbox(), worker.threads());
  });
  feeds_ = take(plan_->feeds, before.feeds, from.feeds_, is_same_object, [&](std::size_t i) {
    const Plan::Feed& feed = *plan_->feeds[i];
    return std::make_shared<api::changes::Feed>(
        reactor, feed.boot, api::changes::Feed::Limits{.events = feed.options.keep, .bytes = feed.options.keep_bytes});
  });
  websockets_ = take(plan_->websockets, before.websockets, from.websockets_, is_same_object, [&](std::size_t i) {
    return std::make_shared<http::websocket::Endpoint>(plan_->websockets[i]->options, worker.echo(), worker.channels());
  });
  const auto goes_on = [](const auto& one, const auto& other) { return one->cores == other->cores; };
  upstreams_ = take(plan_->upstreams, before.upstreams, from.upstreams_, goes_on, [&](std::size_t i) {
    return std::make_shared<gateway::Upstream>(reactor, worker.mailbox(), &worker.mesh(), plan_->upstreams[i]);
  });
  residents_ = take(plan_->residents, before.residents, from.residents_, is_same_object, [&](std::size_t i) {
    const Plan::Resident& resident = *plan_->residents[i];
    return std::make_shared<api::resident::Resident>(resident.plan, resident.first, reactor, worker.mailbox(),
                                                     worker.threads(), &worker.mesh());
  });
  key_sources_ = take(plan_->key_sources, before.key_sources, from.key_sources_, is_same_object, [&](std::size_t i) {
    return gateway::jwt::KeySource::make(plan_->key_sources[i], reactor, worker.mailbox(), worker.mesh(),
                                         worker.threads());
  });
  const auto shared_upstream = [](const Plan& plan, const gateway::PolicyOptions& policy) {
    const auto index = plan.upstream_of(policy);
    return index ? plan.upstreams[*index] : nullptr;
  };
  // The same policy also needs the same table, the same source of keys and the same upstream.
  const auto is_same_policy = [&](const auto& was, const auto& now) {
    return was.name.value == now.name.value && config::same(was.value.without_keys(), now.value.without_keys()) &&
           before.table_of(was.value) == plan_->table_of(now.value) &&
           before.key_source_of(was.value) == plan_->key_source_of(now.value) &&
           shared_upstream(before, was.value) == shared_upstream(*plan_, now.value);
  };
  const auto key_source = [&](const gateway::PolicyOptions& policy) {
    return find_made(key_sources_, plan_->key_sources, plan_->key_source_of(policy),
                     [](const auto& one) { return &one; });
  };
  policies_ = take(options.policies, before.options.policies, from.policies_, is_same_policy, [&](std::size_t i) {
    const gateway::PolicyOptions& policy = options.policies[i].value;
    std::unique_ptr<gateway::KeyTable> table;
    if (const auto planned = plan_->table_of(policy)) {
      table = std::make_unique<ResidentKeys>(resident(planned->plan.get()));
    }
    const auto upstream = plan_->upstream_of(policy);
    return std::shared_ptr<gateway::Policy>(
        gateway::make_policy(policy, {.name = options.policies[i].name.value,
                                      .reactor = reactor,
                                      .mailbox = worker.mailbox(),
                                      .mesh = worker.mesh(),
                                      .threads = worker.threads(),
                                      .keys = plan_->keys[i],
                                      .source = key_source(policy),
                                      .limit = plan_->limits[i],
                                      .table = std::move(table),
                                      .upstream = upstream ? upstreams_[*upstream] : nullptr,
                                      .shared_upstream = shared_upstream(*plan_, policy)}));
  });
  if (const auto& log = plan_->request_log) {
    request_log_ =
        log == before.request_log
            ? from.request_log_
            : std::make_shared<RunningRequestLog>(
                  log, plan_->names, databases_[options.index_of_database(log->options.database.value)], reactor);
  }
  const auto& tls = options.server.tls;
  if (tls && tls->redirect.value) dispatcher_ = &redirect_.emplace(router_, bindings_.front().get());
  list_parts();
}

Site::~Site() = default;

void Site::serve() {
  for (std::size_t i = 0; i < databases_.size(); ++i) {
    const sql::DatabaseOptions& options = plan_->options.databases[i].value;
    databases_[i]->resize(options.pool, options.wait);
  }
  for (std::size_t i = 0; i < upstreams_.size(); ++i) upstreams_[i]->serve(plan_->upstreams[i]);
  for (const auto& policy : policies_) policy->begin();
}

void Site::build() {
  for (const auto& route : plan_->routes) route->build(*this);
}

http::Binding::Filters Site::everywhere() const {
  return compression_ ? http::Binding::Filters{compression_} : http::Binding::Filters{};
}

http::Binding::Filters Site::filters(const std::vector<Located<std::string>>& use) const {
  http::Binding::Filters filters;
  for (const auto& name : use) {
    const auto index = plan_->options.find_policy(name.value);
    // Never serve a route without its policies.
    if (!index) throw std::runtime_error("there is no policy \"" + name.value + "\"");
    // CORS comes first, so that it can answer preflight requests and add its fields to refusals by other policies.
    const bool first = plan_->options.policies[*index].value.type.value == gateway::PolicyType::cors;
    filters.insert(first ? filters.begin() : filters.end(), policies_[*index]);
  }
  return filters;
}

Site::Builder::Builder(Site& site, Plan::RouteId id, std::shared_ptr<const Route> route,
                       const std::vector<Located<std::string>>& use)
    : site_(site),
      binding_(std::make_shared<Binding>(site.worker_, site.generation_, id, std::move(route), site.everywhere(),
                                         site.filters(use), site.answer_fields_)),
      use_(use) {}

sql::Database& Site::Builder::database(std::size_t index) {
  binding_->keep(site_.databases_[index]);
  return *site_.databases_[index];
}

files::Store& Site::Builder::store(std::string_view name) {
  const auto& store = site_.stores_[*site_.plan_->options.find_store(name)];
  binding_->keep(store);
  return *store;
}

api::changes::Feed& Site::Builder::feed(const Plan::Feed* feed) {
  const auto found = site_.feed(feed);
  binding_->keep(found);
  return *found;
}

http::websocket::Endpoint& Site::Builder::websocket(const Plan::WebSocket* websocket) {
  const auto found =
      find_made(site_.websockets_, site_.plan_->websockets, websocket, [](const auto& one) { return &one; });
  binding_->keep(found);
  return *found;
}

api::resident::Resident& Site::Builder::resident(const api::resident::Plan* resident) {
  const auto found = site_.resident(resident);
  binding_->keep(found);
  return *found;
}

std::unique_ptr<http::Handler> Site::Builder::proxy_to(std::string_view upstream,
                                                       std::shared_ptr<const Plan::Proxied> route,
                                                       const gateway::PathChange* change) {
  const std::size_t index = *site_.plan_->options.find_upstream(upstream);
  return std::make_unique<gateway::Proxy>(site_.upstreams_[index], site_.plan_->upstreams[index], std::move(route),
                                          change, site_.answer_fields_.get());
}

void Site::Builder::add(http::Router::Route route) {
  const Plan::RouteId id = binding_->id();
  for (const auto& name : use_) {
    site_.policies_[*site_.plan_->options.find_policy(name.value)]->used_by(id, route.pattern);
  }
  route.id = id;
  route.binding = binding_;
  if (!site_.router_.add(route)) throw std::runtime_error("two routes for the path " + site_.plan_->names[id]);
  site_.bindings_.push_back(binding_);
}

std::shared_ptr<api::changes::Feed> Site::feed(const Plan::Feed* feed) const {
  return find_made(feeds_, plan_->feeds, feed, [](const auto& one) { return &one; });
}

std::shared_ptr<api::resident::Resident> Site::resident(const api::resident::Plan* resident) const {
  return find_made(residents_, plan_->residents, resident, [](const auto& one) { return one.plan.get(); });
}

void Site::drain_endless(const Site* next) {
  for (const auto& feed : feeds_) {
    if (next == nullptr || !contains(next->feeds_, feed)) feed->drain();
  }
  for (const auto& websocket : websockets_) {
    if (next != nullptr && !contains(next->websockets_, websocket)) websocket->drain();
  }
  // At shutdown, tunnels are cut with the server.
  for (const auto& upstream : upstreams_) {
    if (next == nullptr) break;
    const bool stays = contains(next->upstreams_, upstream);
    upstream->tunnels.cut(worker_.reactor().now() + plan_->options.server.grace, [&](const gateway::Tunnel& tunnel) {
      return !stays || tunnel.server().is_gone || !next->plan_->has_proxied(tunnel.route());
    });
  }
}

void Site::list_parts() {
  const Options& options = plan_->options;
  const auto add = [this](const auto& object, auto readings) {
    if (object) parts_.push_back({.object = object, .readings = std::move(readings)});
  };
  // Readings with a label. The part keeps the object alive for its own readings.
  const auto labelled = [](std::string text, auto get) {
    return [text = std::move(text), get = std::move(get)] {
      Readings all;
      append(all, get(), text);
      return all;
    };
  };
  for (std::size_t i = 0; i < databases_.size(); ++i) {
    add(databases_[i], [database = databases_[i].get(), name = options.databases[i].name.value] {
      Readings all;
      for (Reading& reading : database->readings()) {
        const bool is_pool = reading.name.starts_with("db_client_connection_");  // named by OpenTelemetry
        append(all, {std::move(reading)}, label(is_pool ? "db_client_connection_pool_name" : "database", name));
      }
      return all;
    });
    parts_.back().is_database = true;
  }
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    add(stores_[i], [store = stores_[i].get(), has_files = !options.files.empty(),
                     name = label("store", options.stores[i].name.value)] {
      Readings all;
      if (has_files) append(all, store->files().counters().readings());
      append(all, store->counters().readings(), name);
      return all;
    });
  }
  for (std::size_t i = 0; i < feeds_.size(); ++i) {
    add(feeds_[i], labelled(label("http_route", plan_->feeds[i]->path),
                            [feed = feeds_[i].get()] { return feed->counters.readings(); }));
  }
  for (const auto& websocket : websockets_) add(websocket, [] { return Readings(); });
  for (const auto& upstream : upstreams_) {
    add(upstream, [one = upstream.get()] { return one->readings(); });
  }
  for (std::size_t i = 0; i < residents_.size(); ++i) {
    add(residents_[i], labelled(label("resident", plan_->residents[i]->plan->name),
                                [resident = residents_[i].get()] { return resident->counters().readings(); }));
  }
  for (const auto& source : key_sources_) {
    add(source, labelled(label("url", source->url().name), [one = source.get()] { return one->readings(); }));
  }
  add(compression_, [one = compression_.get()] { return one->counters().readings(); });
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    add(policies_[i], labelled(label("policy", options.policies[i].name.value),
                               [policy = policies_[i].get()] { return policy->readings(); }));
  }
}

void Site::set_keys(const std::vector<std::shared_ptr<const gateway::jwt::KeySet>>& keys) {
  for (std::size_t i = 0; i < policies_.size(); ++i) policies_[i]->set_keys(keys[i]);
}

}  // namespace sluice::app
