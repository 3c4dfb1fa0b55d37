#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/reactor.h"
#include "msg/context.h"
#include "msg/service.h"
#include "msg/sessions.h"
#include "net/tls/context.h"
#include "services/service_set.h"
#include "ws/options.h"

namespace sluice::services {

struct HostOptions {
  std::vector<std::string> listen = {};      // "127.0.0.1:9000", "[::1]:9000", "*:9000", "unix:/run/chat.sock"
  std::vector<std::string> listen_tls = {};  // the same, with TLS
  // HTTP addresses whose `websocket.path` takes WebSockets; each binary message is a frame. Without a path: "/".
  std::vector<std::string> listen_websocket = {};
  std::vector<std::string> listen_websocket_tls = {};
  ws::WebSocketOptions websocket = {};
  net::tls::ServerOptions tls = {};  // for the addresses with TLS
  msg::SessionOptions sessions = {};
  unsigned cores = 0;  // 0: as many as the process may use
  core::BackEnd back_end = core::BackEnd::epoll;
  struct Admin {
    std::string listen = {};  // an address for operators: /livez, /readyz and /metrics over HTTP; empty: none
    std::string token = {};   // /metrics needs `Authorization: Bearer TOKEN`; required if other machines reach `listen`
  };
  Admin admin = {};
  Duration drain_delay{};  // how long the host still accepts sessions after SIGTERM, while /readyz already fails
  Duration grace = 10s;    // how long sessions may take to end after SIGTERM; they are closed over the first half of it
  // Called when the host serves, with the addresses that it listens on, in the order of the four lists above, then that
  // of `admin`.
  std::function<void(const std::vector<std::string>& addresses)> ready = {};
};

// A process of message services: its cores, listeners and services.
//
//   services::Host host({.listen = {"127.0.0.1:9000"}});
//   host.add<Echo>();
//   return host.run();
class Host {
 public:
  explicit Host(HostOptions options);
  Host(const Host&) = delete;
  ~Host();

  // Every core makes one T from these arguments, which are copied to it.
  template <std::derived_from<msg::Service> T, class... Arguments>
  void add(Arguments... arguments) {
    make_.push_back([... arguments = std::move(arguments)](msg::Context& context) {
      context.add(std::make_unique<T>(arguments...));
    });
  }

  // Serves until SIGTERM or SIGINT, which it blocks on the calling thread, or stop(); then closes the sessions, stops
  // the services and returns 0. Certificates are read again on SIGHUP and when their files have changed. If an address,
  // a certificate or a service cannot be set up, logs the reason and returns
  // 1. May be called once.
  int run();
  // Ends run() as SIGTERM does. May be called from any thread after `ready`.
  void stop();

 private:
  struct Shared;
  class PerCore;
  void serve();

  HostOptions options_;
  std::vector<MakeService> make_;  // the services of a core
  std::unique_ptr<Shared> shared_;
};

}  // namespace sluice::services
