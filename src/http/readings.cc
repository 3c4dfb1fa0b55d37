#include "http/readings.h"

#include "http/h2/guard.h"
#include "http/server_state.h"

namespace sluice::http {

std::string method_label(Method method) {
  return label("http_request_method", method == Method::other ? "_OTHER" : name_of(method));
}

std::string scheme_label(bool secure) { return label("url_scheme", secure ? "https" : "http"); }

Readings ServerCounters::readings() const {
  Readings all{
      gauge("sluice_connections_open", "Connections of clients.", open),
      counter("sluice_connections_total", "Connections accepted.", accepted),
      counter("sluice_connections_refused_total", "Connections answered 503: over the limit.", refused),
      counter("sluice_out_of_memory_total", "Connections and requests that ended for want of memory.", out_of_memory),
      gauge("sluice_body_bytes",
            "Memory that request bodies, messages of WebSockets, streams of HTTP/2 and answers that wait for their "
            "clients take.",
            bodies.held),
      gauge("sluice_body_bytes_max", "Memory that they may take: [server] body_memory.", bodies.limit),
      counter("sluice_bodies_refused_total",
              "Requests answered 503, WebSockets closed and streams refused: there was no memory for them.",
              bodies.refused),
      counter("sluice_bodies_cut_total",
              "Slow requests answered 503, answers cut and WebSockets closed: others needed the memory.", bodies.cut),
  };
  if (bad_proxy_headers != 0) {
    all.push_back(counter("sluice_proxy_headers_refused_total",
                          "Connections from a proxy of proxy_protocol that did not begin with its header.",
                          bad_proxy_headers));
  }
  for (std::size_t i = 1; i < floods.size(); ++i) {
    if (floods[i] == 0) continue;
    all.push_back(counter("sluice_http2_floods_total", "HTTP/2 connections closed because a client sent too much.",
                          static_cast<double>(floods[i]), label("of", h2::flood_names[i])));
  }
  const bool any_tls = tls != Tls{};
  for (std::size_t secure = 0; secure < (any_tls ? 2 : 1); ++secure) {
    for (std::size_t i = 0; i < method_count; ++i) {
      all.push_back(gauge("http_server_active_requests", "Requests whose answer is waited for or sent.",
                          active[secure][i], method_label(static_cast<Method>(i)) + "," + scheme_label(secure != 0)));
    }
  }
  if (!any_tls) return all;
  const auto done = [&](std::uint64_t count, std::string_view resumed) {
    all.push_back(
        counter("sluice_tls_handshakes_total", "TLS handshakes that were done.", count, label("resumed", resumed)));
  };
  done(tls.handshakes - tls.resumed, "false");
  done(tls.resumed, "true");
  const auto failed = [&](std::uint64_t count, std::string_view reason) {
    all.push_back(counter("sluice_tls_handshakes_failed_total", "Connections that ended without one.", count,
                          label("reason", reason)));
  };
  failed(tls.failed, "failed");
  failed(tls.timed_out, "timeout");
  failed(tls.plain_http, "plain_http");
  return all;
}

}  // namespace sluice::http
