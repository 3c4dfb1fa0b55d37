#include "app/serve.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <system_error>
#include <vector>

#include "app/admin.h"
#include "app/cli.h"
#include "app/service.h"
#include "core/blocking_pool.h"
#include "core/core.h"

namespace sluice::app {
namespace {

// Tells a core to drain.
struct DrainLetter : core::Letter {
  DrainLetter(Service& service, Duration grace)
      : Letter([](core::Letter& letter) noexcept {
          auto& self = static_cast<DrainLetter&>(letter);
          self.service.drain(self.grace);
        }),
        service(service),
        grace(grace) {}
  Service& service;
  Duration grace;
};

// Every core binds with SO_REUSEPORT, which would let a second program in beside us unnoticed: so each address is first
// bound alone. Also turns port 0 into the port that all cores then share.
core::Address claim(const std::string& text) {
  const auto address = core::Address::parse(text);
  if (!address) throw std::runtime_error("\"" + text + "\" is not an address");
  const auto reactor = core::make_epoll_reactor();
  core::Handle handle;
  const auto listening = reactor->listen(handle, *address, {.backlog = 1, .reuse_port = false});
  if (!listening) {
    throw std::system_error(listening.error().detail, std::generic_category(), "cannot listen on " + text);
  }
  const auto bound = reactor->local_address(handle);
  reactor->close(handle);
  if (!bound) throw std::system_error(bound.error().detail, std::generic_category(), text);
  return *bound;
}

void remove_socket_files(const std::vector<core::Address>& addresses) {
  for (const core::Address& address : addresses) {
    if (address.family() == AF_UNIX) ::unlink(reinterpret_cast<const sockaddr_un*>(address.get())->sun_path);
  }
}

// Every connection is a descriptor: as many as the system lets us have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

std::string url_of(const core::Address& address) {
  if (address.family() == AF_UNIX) return address.text();
  std::string text = address.text();
  // What a browser can open: any-address is not one of them.
  if (text.starts_with("0.0.0.0:")) text = "127.0.0.1" + text.substr(7);
  if (text.starts_with("[::]:")) text = "[::1]" + text.substr(4);
  return "http://" + text;
}

void print_banner(const Plan& plan, unsigned cores, const std::vector<core::Address>& addresses,
                  const std::optional<core::Address>& admin) {
  fmt::print("sluice {}: {} endpoint{}, {} folder{} of files, {} core{}\n", SLUICE_VERSION, plan.endpoints.size(),
             plan.endpoints.size() == 1 ? "" : "s", plan.files.size(), plan.files.size() == 1 ? "" : "s", cores,
             cores == 1 ? "" : "s");
  for (const core::Address& address : addresses) fmt::print("  serving  {}/\n", url_of(address));
  if (admin) fmt::print("  admin    {}/metrics /livez /readyz\n", url_of(*admin));
  std::fflush(stdout);
}

}  // namespace

int serve(const std::shared_ptr<const Plan>& plan) {
  const ServerOptions& options = plan->options.server;
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // all threads inherit it: only sigwait() below takes them
  raise_descriptor_limit();

  std::vector<core::Address> addresses;
  for (const auto& listen : options.listen) addresses.push_back(claim(listen.value));
  std::optional<core::Address> admin_address;
  if (!plan->options.admin.listen.value.empty()) admin_address = claim(plan->options.admin.listen.value);

  core::Cores cores({.count = options.cores});
  core::BlockingPool threads(2 * cores.size(), 1024 * cores.size());
  std::vector<Service*> services(cores.size());
  cores.start([&](core::Core& core) {
    Service service(core, plan, threads);
    services[core.index()] = &service;
    for (const core::Address& address : addresses) {
      // A unix socket's path belongs to one listener.
      if (address.family() != AF_UNIX || core.index() == 0) service.listen(address);
    }
    std::optional<Admin> admin;
    if (core.index() == 0 && admin_address) {
      admin.emplace(core, plan, services);
      admin->listen(*admin_address);
    }
    core.run();
  });
  print_banner(*plan, cores.size(), addresses, admin_address);

  int signal = 0;
  sigwait(&signals, &signal);
  std::vector<std::unique_ptr<DrainLetter>> letters;
  for (unsigned i = 0; i < cores.size(); ++i) {
    letters.push_back(std::make_unique<DrainLetter>(*services[i], options.grace));
    if (!cores.core(i).mailbox().post(*letters.back())) continue;  // that core has ended already
  }
  // From here on a second signal ends the program as it would without us.
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  cores.join();
  remove_socket_files(addresses);
  return exit_ok;
}

}  // namespace sluice::app
