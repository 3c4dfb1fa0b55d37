#include "app/serve.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/admin/admin.h"
#include "app/commands/exit_code.h"
#include "app/components/feed/changes.h"
#include "app/components/resident/residents.h"
#include "app/listeners.h"
#include "app/log/open_logs.h"
#include "app/reloader.h"
#include "app/worker.h"
#include "base/logs.h"
#include "base/version.h"
#include "core/core.h"
#include "files/blob_folder.h"
#include "runtime/admin.h"
#include "runtime/process.h"

namespace sluice::app {
namespace {

std::string url_of(const core::Address& address, bool secure = false) {
  if (address.family() == AF_UNIX) return address.text();
  // A browser cannot open a wildcard address.
  const bool is_wildcard = address.ip() == "0.0.0.0" || address.ip() == "::";
  return (secure ? "https://" : "http://") +
         (is_wildcard ? "localhost:" + std::to_string(address.port()) : address.text());
}

void print_banner(const Plan& plan, unsigned cores, const std::vector<net::Listening>& addresses,
                  const std::optional<net::Listening>& admin, Logs& logs) {
  const Options& options = plan.options;
  // If the access log is on standard output, only its lines may be written there.
  LogWriter& out = options.server.access_log.value == "stdout" ? logs.errors() : logs.output();
  std::string text = fmt::format("sluice {}: ", version);
  for_each_route_kind([&]<class Kind> {
    std::size_t tables = 0;
    for_each_table<Kind>(options, [&](const auto&) { ++tables; });
    if (tables > 0) text += fmt::format("{} {}, ", tables, tables == 1 ? Kind::nouns.one : Kind::nouns.many);
  });
  text += fmt::format("{} {}\n", cores, cores == 1 ? "core" : "cores");
  for (const net::Listening& one : addresses) text += fmt::format("  serving  {}/\n", url_of(one.address, one.secure));
  for (const auto& frames : plan.all<FramesComponent>()) {
    for (const net::Listening& one : frames->addresses) {
      text += fmt::format("  frames   {} ({}{})\n", one.address.text(), frames->options.service.value,
                          one.secure ? ", TLS" : "");
    }
  }
  if (options.openapi && options.openapi->explorer) {
    const net::Listening& first = addresses.front();
    text += fmt::format("  explore  {}{}\n", url_of(first.address, first.secure), options.openapi->explorer->value);
  }
  if (admin) text += fmt::format("  admin    {}/\n", url_of(admin->address));
  text += fmt::format("  io       {}\n", name_of(plan.io.back_end));
  out.write(text);
}

}  // namespace

int serve(const config::Source& source, const std::shared_ptr<const Plan>& plan, void (*open)(const std::string&)) {
  if (const auto loaded = load_residents(*plan, nullptr, true); !loaded) {
    std::fputs(loaded.error().text.c_str(), stderr);
    return loaded.error().exit_code;
  }
  const ServerOptions& options = plan->options.server;
  std::fflush(nullptr);
  const bool says_connections = options.connections.position.line != 0;
  runtime::Process process({.cores = plan->cores,
                            .back_end = plan->io.back_end,
                            .threads_per_core = 2,
                            .connections_per_core = says_connections ? options.connections.value : 0,
                            .manager = runtime::ManagerEnvironment::take()});
  auto log_files = open_logs(process.logs(), options);
  if (!log_files) {
    std::fputs(source.render(log_files.error()).c_str(), stderr);
    return exit_failure;
  }
  process.logs().use(std::move(*log_files));
  core::Cores& cores = process.cores();
  Listeners listeners(*plan, process.files(), process.passed());
  const ListenerSet first = listeners.served();
  std::optional<net::Listening> admin_address;
  if (!plan->options.admin.listen.value.empty()) {
    admin_address = listeners.claim_also(plan->options.admin.listen.value);
  }
  process.passed().check_all_found();

  // Reports here, and not on a core, if a folder cannot be opened. Also removes incomplete files of an earlier run.
  for (const auto& store : plan->options.stores) {
    files::BlobFolder::open(store.value.path.value)->remove_leftovers();
  }

  std::vector<Worker*> workers(cores.size());
  Reloader reloader(source.name(), plan, workers, listeners, process);
  process.start([&](core::Core& core, const runtime::Process::Run& run) {
    Worker worker(core, plan, process.threads(), process.logs(), process.descriptors());
    workers[core.index()] = &worker;
    worker.bind(first.addresses);
    worker.listen(first);
    Changes changes(core, workers);
    Residents residents(core, workers, process.threads());
    std::optional<runtime::Admin> admin;
    if (core.index() == 0) {
      changes.join(*plan);
      core.tasks().spawn(changes.settle());
      residents.follow(*plan);
      reloader.set_keepers(changes, residents);
      if (admin_address) {
        admin.emplace(core, process.per_core());
        add_pages(*admin, core, plan->io, workers, reloader, changes, residents, process.logs().tail());
        admin->listen(*admin_address);
      }
    }
    run(worker);
  });
  for (const auto& resident : plan->all<Plan::Resident>()) {
    resident->first = {};  // the cores have them
    resident->mark = {};
  }
  print_banner(*plan, cores.size(), first.addresses, admin_address, process.logs());
  process.notifier().ready("serving");
  if (open != nullptr) open(url_of(first.addresses.front().address, first.addresses.front().secure) + "/");

  const siginfo_t end = process.wait([&](bool told) {
    reloader.tend(told);
    if (told) reloader.start();
  });
  // The cores run: from here on nothing allocates memory or throws.
  reloader.end();
  const std::shared_ptr<const Plan> last = reloader.served();
  process.end(end, {.delay = last->options.server.drain_delay, .grace = last->options.server.grace});
  if (reloader.is_running()) {  // it waits for a database; do not wait for it
    process.files().end();
    process.logs().finish();
    std::_Exit(exit_ok);
  }
  return exit_ok;
}

}  // namespace sluice::app
