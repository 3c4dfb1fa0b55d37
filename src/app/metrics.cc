#include "app/metrics.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace sluice::app {

void Histogram::add(Duration value) {
  const double seconds = std::chrono::duration<double>(value).count();
  // Most answers are faster than the first bound.
  std::size_t bucket = 0;
  while (bucket < bounds_s.size() && seconds > bounds_s[bucket]) ++bucket;
  ++buckets[bucket];
  ++count;
  sum_s += seconds;
}

void Histogram::add(const Histogram& other) {
  for (std::size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
  count += other.count;
  sum_s += other.sum_s;
}

RequestMetrics::Series& RequestMetrics::find(std::uint16_t route, http::Method method, std::uint16_t status,
                                             bool secure) {
  if (route >= first_.size()) first_.resize(route + 1U);
  std::uint32_t* place = &first_[route];
  while (*place != 0) {
    Series& one = series_[*place - 1];
    if (one.status == status && one.method == method && one.secure == secure) return one;
    place = &one.next;
  }
  *place = static_cast<std::uint32_t>(series_.size() + 1);
  Series fresh;
  fresh.route = route;
  fresh.method = method;
  fresh.status = status;
  fresh.secure = secure;
  series_.push_back(fresh);
  return series_.back();
}

void RequestMetrics::add(const http::Completion& completion) {
  const http::Request* request = completion.request;
  Series& series = find(request != nullptr ? request->route : std::uint16_t{0}, completion.method,
                        static_cast<std::uint16_t>(completion.status), completion.secure);
  series.body_bytes += completion.body_bytes;
  series.broken += completion.broken ? 1 : 0;
  series.durations.add(completion.duration);
}

void RequestMetrics::add(const RequestMetrics& other) {
  for (const Series& from : other.series_) {
    Series& to = find(from.route, from.method, from.status, from.secure);
    to.body_bytes += from.body_bytes;
    to.broken += from.broken;
    to.durations.add(from.durations);
  }
}

void MetricsText::family(std::string_view name, std::string_view type, std::string_view help) {
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricsText::sample(std::string_view name, std::string_view labels, double value) {
  text_ += name;
  if (!labels.empty()) {
    text_ += '{';
    text_ += labels;
    text_ += '}';
  }
  if (value == std::floor(value) && std::abs(value) < 9e15) {
    text_ += fmt::format(" {}\n", static_cast<std::int64_t>(value));
  } else {
    text_ += fmt::format(" {}\n", value);
  }
}

std::string MetricsText::label(std::string_view name, std::string_view value) {
  std::string text(name);
  text += "=\"";
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  text += '"';
  return text;
}

namespace {

// Methods that nobody has registered could be without number: they share one label, as OpenTelemetry has it.
std::string method_label(http::Method method) {
  return MetricsText::label("http_request_method", method == http::Method::other ? "_OTHER" : name_of(method));
}
std::string scheme_label(bool secure) { return MetricsText::label("url_scheme", secure ? "https" : "http"); }

}  // namespace

void ServerMetrics::add(const http::Server::Counters& counters) {
  sum_.accepted += counters.accepted;
  sum_.refused += counters.refused;
  sum_.open += counters.open;
  sum_.out_of_memory += counters.out_of_memory;
  sum_.bodies.held += counters.bodies.held;
  sum_.bodies.limit += counters.bodies.limit;
  sum_.bodies.refused += counters.bodies.refused;
  sum_.bodies.cut += counters.bodies.cut;
  for (std::size_t secure = 0; secure < 2; ++secure) {
    for (std::size_t i = 0; i < http::method_count; ++i) sum_.active[secure][i] += counters.active[secure][i];
  }
  sum_.tls.handshakes += counters.tls.handshakes;
  sum_.tls.resumed += counters.tls.resumed;
  sum_.tls.failed += counters.tls.failed;
  sum_.tls.timed_out += counters.tls.timed_out;
  sum_.tls.plain_http += counters.tls.plain_http;
}

void ServerMetrics::render(MetricsText& out) const {
  out.family("sluice_connections_open", "gauge", "Connections of clients.");
  out.sample("sluice_connections_open", {}, static_cast<double>(sum_.open));
  out.family("sluice_connections_total", "counter", "Connections accepted.");
  out.sample("sluice_connections_total", {}, static_cast<double>(sum_.accepted));
  out.family("sluice_connections_refused_total", "counter", "Connections answered 503: over the limit.");
  out.sample("sluice_connections_refused_total", {}, static_cast<double>(sum_.refused));
  out.family("sluice_out_of_memory_total", "counter", "Connections and requests that ended for want of memory.");
  out.sample("sluice_out_of_memory_total", {}, static_cast<double>(sum_.out_of_memory));
  out.family("sluice_body_bytes", "gauge", "Memory that request bodies and streams of HTTP/2 take.");
  out.sample("sluice_body_bytes", {}, static_cast<double>(sum_.bodies.held));
  out.family("sluice_body_bytes_max", "gauge", "Memory that they may take: [server] body_memory.");
  out.sample("sluice_body_bytes_max", {}, static_cast<double>(sum_.bodies.limit));
  out.family("sluice_bodies_refused_total", "counter",
             "Requests answered 503 and streams refused: there was no memory for them.");
  out.sample("sluice_bodies_refused_total", {}, static_cast<double>(sum_.bodies.refused));
  out.family("sluice_bodies_cut_total", "counter", "Slow requests answered 503: others needed the memory.");
  out.sample("sluice_bodies_cut_total", {}, static_cast<double>(sum_.bodies.cut));
  out.family("http_server_active_requests", "gauge", "Requests whose answer is waited for or sent.");
  const bool any_tls = sum_.tls != http::Server::Counters::Tls{};
  for (std::size_t secure = 0; secure < (any_tls ? 2 : 1); ++secure) {
    for (std::size_t i = 0; i < http::method_count; ++i) {
      out.sample("http_server_active_requests",
                 method_label(static_cast<http::Method>(i)) + "," + scheme_label(secure != 0),
                 static_cast<double>(sum_.active[secure][i]));
    }
  }
  if (!any_tls) return;
  out.family("sluice_tls_handshakes_total", "counter", "TLS handshakes that were done.");
  for (const bool resumed : {false, true}) {
    const std::uint64_t count = resumed ? sum_.tls.resumed : sum_.tls.handshakes - sum_.tls.resumed;
    out.sample("sluice_tls_handshakes_total", MetricsText::label("resumed", resumed ? "true" : "false"),
               static_cast<double>(count));
  }
  out.family("sluice_tls_handshakes_failed_total", "counter", "Connections that ended without one.");
  for (const auto& [reason, count] : {std::pair{"failed", sum_.tls.failed}, std::pair{"timeout", sum_.tls.timed_out},
                                      std::pair{"plain_http", sum_.tls.plain_http}}) {
    out.sample("sluice_tls_handshakes_failed_total", MetricsText::label("reason", reason), static_cast<double>(count));
  }
}

void render(const ws::Counters& counters, MetricsText& out) {
  out.family("sluice_websockets_open", "gauge", "WebSocket conversations.");
  out.sample("sluice_websockets_open", {}, static_cast<double>(counters.open));
  out.family("sluice_websockets_total", "counter", "WebSocket conversations begun.");
  out.sample("sluice_websockets_total", {}, static_cast<double>(counters.opened));
  out.family("sluice_websockets_lost_total", "counter", "WebSocket conversations ended without a close handshake.");
  out.sample("sluice_websockets_lost_total", {}, static_cast<double>(counters.lost));
  const std::string received = MetricsText::label("direction", "received");
  const std::string sent = MetricsText::label("direction", "sent");
  out.family("sluice_websocket_messages_total", "counter", "Messages of WebSocket conversations.");
  out.sample("sluice_websocket_messages_total", received, static_cast<double>(counters.messages_received));
  out.sample("sluice_websocket_messages_total", sent, static_cast<double>(counters.messages_sent));
  out.family("sluice_websocket_message_bytes_total", "counter", "Bytes of these messages, decompressed.");
  out.sample("sluice_websocket_message_bytes_total", received, static_cast<double>(counters.bytes_received));
  out.sample("sluice_websocket_message_bytes_total", sent, static_cast<double>(counters.bytes_sent));
}

void render(const std::vector<gateway::jwt::Counters>& policies, const std::vector<std::string>& names,
            MetricsText& out) {
  using gateway::jwt::Counters;
  const auto family = [&](std::string_view name, std::string_view type, std::string_view help,
                          std::uint64_t Counters::* counter) {
    out.family(name, type, help);
    for (std::size_t i = 0; i < policies.size(); ++i) {
      out.sample(name, MetricsText::label("policy", names[i]), static_cast<double>(policies[i].*counter));
    }
  };
  family("sluice_jwt_cache_hits_total", "counter", "Requests whose token was verified before.", &Counters::hits);
  family("sluice_jwt_verifications_total", "counter", "Tokens that were verified, and good.", &Counters::verifications);
  family("sluice_jwt_anonymous_total", "counter", "Requests without a token that went on.", &Counters::anonymous);
  family("sluice_jwt_cache_tokens", "gauge", "Verified tokens that are remembered.", &Counters::cached_tokens);
  family("sluice_jwt_cache_bytes", "gauge", "What they take in memory.", &Counters::cached_bytes);
  out.family("sluice_jwt_refusals_total", "counter", "Requests that were not let through.");
  for (std::size_t i = 0; i < policies.size(); ++i) {
    for (std::size_t reason = 0; reason < gateway::jwt::refusal_count; ++reason) {
      out.sample("sluice_jwt_refusals_total",
                 MetricsText::label("policy", names[i]) + "," +
                     MetricsText::label("reason", name_of(static_cast<gateway::jwt::Refusal>(reason))),
                 static_cast<double>(policies[i].refusals[reason]));
    }
  }
}

void DatabaseMetrics::add(const std::vector<std::vector<sql::Reading>>& readings) {
  databases_.resize(std::max(databases_.size(), readings.size()));
  for (std::size_t i = 0; i < readings.size(); ++i) {
    if (databases_[i].empty()) {
      databases_[i] = readings[i];
      continue;
    }
    for (std::size_t k = 0; k < readings[i].size(); ++k) databases_[i][k].value += readings[i][k].value;
  }
}

void DatabaseMetrics::render(const std::vector<std::string>& names, MetricsText& out) const {
  // All samples of a family stand together, those of every database.
  std::vector<const sql::Reading*> families;
  for (const auto& readings : databases_) {
    for (const sql::Reading& reading : readings) {
      const auto same = [&](const sql::Reading* one) { return one->name == reading.name; };
      if (std::ranges::none_of(families, same)) families.push_back(&reading);
    }
  }
  for (const sql::Reading* family : families) {
    out.family(family->name, family->kind == sql::Reading::Kind::gauge ? "gauge" : "counter", family->help);
    const bool is_conventional = family->name.starts_with("db_client_connection_");
    for (std::size_t i = 0; i < databases_.size(); ++i) {
      const std::string name =
          MetricsText::label(is_conventional ? "db_client_connection_pool_name" : "database", names[i]);
      for (const sql::Reading& reading : databases_[i]) {
        if (reading.name != family->name) continue;
        const std::string more = reading.labels.empty() ? "" : "," + std::string(reading.labels);
        out.sample(reading.name, name + more, static_cast<double>(reading.value));
      }
    }
  }
}

void render(const files::Cache::Counters& files, MetricsText& out) {
  out.family("sluice_files_cache_hits_total", "counter", "Requests for files answered from the cache as it was.");
  out.sample("sluice_files_cache_hits_total", {}, static_cast<double>(files.hits));
  out.family("sluice_files_cache_misses_total", "counter", "Requests for files that were looked up, or for a change.");
  out.sample("sluice_files_cache_misses_total", {}, static_cast<double>(files.misses));
  out.family("sluice_files_cache_files", "gauge", "Files in memory or open in the cache.");
  out.sample("sluice_files_cache_files", {}, static_cast<double>(files.files));
  out.family("sluice_files_cache_bytes", "gauge", "Bytes of the files in memory in the cache.");
  out.sample("sluice_files_cache_bytes", {}, static_cast<double>(files.bytes));
}

void render(const std::vector<files::Store::Counters>& stores, const std::vector<std::string>& names,
            MetricsText& out) {
  using Counters = files::Store::Counters;
  const auto sample = [&](std::string_view name, std::string_view reason, std::uint64_t Counters::* counter) {
    for (std::size_t i = 0; i < stores.size(); ++i) {
      std::string labels = MetricsText::label("store", names[i]);
      if (!reason.empty()) labels += "," + MetricsText::label("reason", reason);
      out.sample(name, labels, static_cast<double>(stores[i].*counter));
    }
  };
  out.family("sluice_uploads_total", "counter", "Files that were received and brought to the disk.");
  sample("sluice_uploads_total", {}, &Counters::files);
  out.family("sluice_upload_bytes_total", "counter", "Their bytes.");
  sample("sluice_upload_bytes_total", {}, &Counters::bytes);
  out.family("sluice_uploads_refused_total", "counter", "Files that were not taken.");
  sample("sluice_uploads_refused_total", "length", &Counters::too_long);
  sample("sluice_uploads_refused_total", "type", &Counters::wrong_type);
  sample("sluice_uploads_refused_total", "busy", &Counters::too_many);
  sample("sluice_uploads_refused_total", "disk", &Counters::failed);
}

void render(const http::compress::Counters& compression, MetricsText& out) {
  const auto counter = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    out.family(name, "counter", help);
    out.sample(name, {}, static_cast<double>(value));
  };
  counter("sluice_compression_answers_total", "Answers that went out compressed.", compression.answers);
  counter("sluice_compression_cached_total", "Those of them whose compressed form was kept.", compression.cached);
  counter("sluice_compression_refused_total", "Answers that went out as they were for want of [compression] memory.",
          compression.no_memory);
  counter("sluice_compression_input_bytes_total", "Bytes given to compressors.", compression.bytes_in);
  counter("sluice_compression_output_bytes_total", "Bytes that compressors made of them.", compression.bytes_out);
}

void render(const std::vector<api::changes::Counters>& changes, const std::vector<std::string>& paths,
            MetricsText& out) {
  const auto family = [&](std::string_view name, std::string_view type, std::string_view help,
                          std::uint64_t api::changes::Counters::* member) {
    out.family(name, type, help);
    for (std::size_t i = 0; i < changes.size(); ++i) {
      out.sample(name, MetricsText::label("http_route", paths[i]), static_cast<double>(changes[i].*member));
    }
  };
  using Counters = api::changes::Counters;
  family("sluice_changes_clients", "gauge", "Clients that listen for changes.", &Counters::clients);
  family("sluice_changes_events_total", "counter", "Changes that were heard of.", &Counters::events);
  family("sluice_changes_sent_total", "counter", "Changes that clients were told of.", &Counters::sent);
  family("sluice_changes_resets_total", "counter", "Clients that were told to read the resource anew.",
         &Counters::resets);
  family("sluice_changes_refused_total", "counter", "Clients beyond the limit.", &Counters::refused);
}

void render(const std::vector<Residents::Counters>& residents,
            const std::vector<api::resident::Resident::Counters>& answers, const std::vector<std::string>& names,
            MetricsText& out) {
  const auto family = [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
    out.family(name, type, help);
    for (std::size_t i = 0; i < names.size(); ++i) {
      out.sample(name, MetricsText::label("resident", names[i]), static_cast<double>(value(i)));
    }
  };
  family("sluice_resident_rows", "gauge", "Rows of the version that is served.",
         [&](auto i) { return residents[i].rows; });
  family("sluice_resident_bytes", "gauge", "What its rows and indexes take in memory.",
         [&](auto i) { return residents[i].bytes; });
  family("sluice_resident_age_seconds", "gauge", "Since the database was last asked with success.",
         [&](auto i) { return residents[i].age_s; });
  family("sluice_resident_load_seconds", "gauge", "How long the last load took.",
         [&](auto i) { return residents[i].load_s; });
  family("sluice_resident_loads_total", "counter", "Loads that succeeded.", [&](auto i) { return residents[i].loads; });
  family("sluice_resident_partial_total", "counter", "Those of them that read the changes alone.",
         [&](auto i) { return residents[i].partial; });
  family("sluice_resident_unchanged_total", "counter",
         "Refreshes that found nothing new, those included that did not have to load.",
         [&](auto i) { return residents[i].unchanged; });
  family("sluice_resident_failures_total", "counter", "Loads that failed: what was there before is served.",
         [&](auto i) { return residents[i].failures; });
  family("sluice_resident_cut_total", "counter", "Old versions whose answers were cut for the next one to be loaded.",
         [&](auto i) { return residents[i].cut; });
  family("sluice_resident_answers_cached_total", "counter", "Queries whose whole answer was kept.",
         [&](auto i) { return answers[i].answers.hits; });
  family("sluice_resident_answers_made_total", "counter", "Queries whose answer was put together.",
         [&](auto i) { return answers[i].answers.misses; });
  family("sluice_resident_cache_bytes", "gauge", "What the answers and rows that are kept take, of all cores.",
         [&](auto i) { return answers[i].answers.bytes + answers[i].rows_bytes; });
  family("sluice_resident_chunks_elsewhere_total", "counter",
         "Chunks of long answers, encoded on demand, that another core than the answering one has encoded.",
         [&](auto i) { return answers[i].chunks_elsewhere; });
}

void render(const std::vector<Changes::Listening>& listening, const std::vector<std::string>& names, MetricsText& out) {
  out.family("sluice_changes_listening", "gauge", "Whether changes of the database are heard of.");
  for (const auto& one : listening) {
    out.sample("sluice_changes_listening", MetricsText::label("database", names[one.database]),
               one.counters.listening ? 1 : 0);
  }
  out.family("sluice_changes_connections_total", "counter", "Connections that have listened for changes.");
  for (const auto& one : listening) {
    out.sample("sluice_changes_connections_total", MetricsText::label("database", names[one.database]),
               static_cast<double>(one.counters.connections));
  }
}

void render(const RequestMetrics& metrics, const std::vector<std::string>& routes, MetricsText& out) {
  const auto labels_of = [&](const RequestMetrics::Series& series) {
    std::string labels = method_label(series.method) + ",";
    if (series.route != 0 && series.route < routes.size()) {
      labels += MetricsText::label("http_route", routes[series.route]) + ",";
    }
    return labels + MetricsText::label("http_response_status_code", std::to_string(series.status)) + "," +
           scheme_label(series.secure);
  };

  constexpr std::string_view duration = "http_server_request_duration_seconds";
  out.family(duration, "histogram", "From the last byte of a request's header to the last byte of its answer.");
  for (const auto& series : metrics.series()) {
    const std::string labels = labels_of(series);
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < series.durations.buckets.size(); ++i) {
      below += series.durations.buckets[i];
      const std::string bound = i < Histogram::bounds_s.size() ? fmt::format("{}", Histogram::bounds_s[i]) : "+Inf";
      out.sample(std::string(duration) + "_bucket", labels + ",le=\"" + bound + "\"", static_cast<double>(below));
    }
    out.sample(std::string(duration) + "_sum", labels, series.durations.sum_s);
    out.sample(std::string(duration) + "_count", labels, static_cast<double>(series.durations.count));
  }
  out.family("sluice_response_body_bytes_total", "counter", "Bytes of bodies sent, without framing.");
  for (const auto& series : metrics.series()) {
    out.sample("sluice_response_body_bytes_total", labels_of(series), static_cast<double>(series.body_bytes));
  }
  out.family("sluice_responses_broken_total", "counter", "Answers cut half-way, by us or by the client.");
  for (const auto& series : metrics.series()) {
    if (series.broken == 0) continue;
    out.sample("sluice_responses_broken_total", labels_of(series), static_cast<double>(series.broken));
  }
}

}  // namespace sluice::app
