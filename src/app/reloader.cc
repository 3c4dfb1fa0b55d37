#include "app/reloader.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <malloc.h>

#include "app/commands/development.h"
#include "app/config/load.h"
#include "app/listeners.h"
#include "app/log/open_logs.h"
#include "app/prepare/opened_database.h"
#include "app/prepare/prepare.h"
#include "app/worker.h"
#include "base/contains.h"
#include "base/log.h"
#include "runtime/post.h"

namespace sluice::app {
namespace {

// The answers of all cores to an order.
struct Answers {
  std::mutex mutex;
  std::condition_variable came;
  std::size_t awaited = 0;
  std::optional<std::string> fault;

  void add(std::optional<std::string> wrong) {
    const std::lock_guard lock(mutex);
    if (wrong && !fault) fault = std::move(wrong);
    if (--awaited == 0) came.notify_one();
  }
};

// Returns errors for changed options that only a restart can apply.
std::vector<config::Diagnostic> fixed_differences(const Options& served, const Options& next) {
  std::vector<config::Diagnostic> all;
  const auto complain = [&](Position position, const std::string& what) {
    all.push_back({position, what + " is not as it was when the program started", "that needs a restart"});
  };
  if (served.server.cores != next.server.cores) complain(next.server.cores.position, "[server] cores");
  if (served.server.io != next.server.io) complain(next.server.io.position, "[server] io");
  if (served.admin.listen.value != next.admin.listen.value) complain(next.admin.listen.position, "[admin] listen");
  return all;
}

}  // namespace

Reloader::Reloader(std::string file, std::shared_ptr<const Plan> plan, std::span<Worker* const> workers,
                   Listeners& listeners, runtime::Process& process)
    : file_(std::move(file)),
      first_(std::move(plan)),
      workers_(workers),
      cores_(process.cores()),
      listeners_(listeners),
      notifier_(process.notifier()),
      logs_(process.logs()),
      kept_(std::make_unique<Kept>(first_)) {
  add_plan(first_);
  if (auto wrong = open_shared_parts(*first_, resolver_)) throw std::runtime_error(*wrong);
  watch_expiry(*first_);
  thread_ = std::thread([this] { run(); });
}

// Writers for the cores need their mailboxes, which are destroyed next.
Reloader::~Reloader() {
  {
    const std::lock_guard lock(starting_);
    over_ = true;
    started_.notify_one();
  }
  thread_.join();
  for (const auto& database : databases_) database->shared.reset();
}

template <class Fn>
std::optional<std::string> Reloader::on_every_core(Fn what) {
  const auto answers = std::make_shared<Answers>();
  answers->awaited = workers_.size();
  for (unsigned i = 0; i < workers_.size(); ++i) {
    auto run = [answers, what, &worker = *workers_[i]] {
      std::optional<std::string> wrong;
      try {
        wrong = what(worker);
      } catch (const std::exception& error) {
        wrong = error.what();
      }
      answers->add(std::move(wrong));
    };
    if (!runtime::post(cores_.core(i), std::move(run))) answers->add("the server is ending");
  }
  std::unique_lock lock(answers->mutex);
  answers->came.wait(lock, [&] { return answers->awaited == 0; });
  return std::move(answers->fault);
}

template <class Fn>
std::optional<std::string> Reloader::on_first_core(Fn what) {
  // If the core ends, it destroys the task, and then the destructor answers.
  struct Answer {
    explicit Answer(std::shared_ptr<Answers> given) : answers(std::move(given)) {}
    Answer(const Answer&) = delete;
    ~Answer() { answers->add(std::move(wrong)); }
    const std::shared_ptr<Answers> answers;
    std::optional<std::string> wrong = "the server is ending";
  };
  const auto answers = std::make_shared<Answers>();
  answers->awaited = 1;
  auto run = [answer = std::make_unique<Answer>(answers), what, &core = cores_.core(0)]() mutable {
    try {
      core.tasks().spawn([](std::unique_ptr<Answer> mine, Fn act) -> core::Task<void> {
        try {
          co_await act();
          mine->wrong.reset();
        } catch (const std::exception& error) {
          mine->wrong = error.what();
        }
      }(std::move(answer), what));
    } catch (const std::bad_alloc&) {
      // If there was no memory for the coroutine frame, the destructor of the answer has answered.
    }
  };
  (void)runtime::post(cores_.core(0), std::move(run));
  std::unique_lock lock(answers->mutex);
  answers->came.wait(lock, [&] { return answers->awaited == 0; });
  return std::move(answers->fault);
}

std::optional<std::string> Reloader::reload() {
  const std::lock_guard lock(reloading_);
  if (ending_) return "the server is ending";
  notifier_.reloading();
  std::optional<std::string> wrong;
  try {
    wrong = try_reload();
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  notifier_.ready(wrong ? "serving; the last reload was refused" : "serving; the configuration has been read again");
  if (wrong) {
    ++refused_;
    if (is_development) {
      std::fputs(("the last configuration is still served\n" + *wrong).c_str(), stderr);
    } else {
      log_error("the configuration is not read again; nothing has changed: " + *wrong);
    }
  } else {
    ++done_;
    log_error("the configuration has been read again");
  }
  const std::lock_guard attempting(attempting_);
  last_ = {.unix_s = std::time(nullptr), .error = wrong.value_or("")};
  return wrong;
}

std::optional<std::string> Reloader::try_reload() {
  const std::shared_ptr<const Plan> served = this->served();
  const auto config = config::load(file_, config::process_environment);
  if (!config) return config.error().text();
  forget_plans();
  if (auto fixed = fixed_differences(first_->options, config->options); !fixed.empty()) {
    return config::Errors{.source = config->source, .list = std::move(fixed)}.text();
  }
  if (auto faults = development_faults(config->options); is_development && !faults.empty()) {
    return config::Errors{.source = config->source, .list = std::move(faults)}.text();
  }
  auto prepared = prepare(*config, false, served.get());
  if (!prepared) return std::move(prepared.error().text);
  const std::shared_ptr<const Plan> next = std::move(*prepared);
  if (auto wrong = open_shared_parts(*next, resolver_)) return wrong;
  if (auto loaded = load_residents(*next, served.get(), false); !loaded) return std::move(loaded.error().text);
  for (const std::string& warning : next->warnings) log_error("configuration: " + warning);

  auto log_files = open_logs(logs_, next->options.server);
  if (!log_files) return config->source.render(log_files.error());
  const auto addresses = listeners_.claim(*next);
  if (!addresses) return config->source.render(addresses.error());

  add_plan(next);
  if (auto wrong = build(next, *addresses)) {
    listeners_.forget_claimed();
    {
      const std::lock_guard lock(keeping_);
      (void)on_every_core([listeners = listeners_.served()](Worker& worker) -> std::optional<std::string> {
        worker.forget_next();
        worker.listen(listeners);
        return std::nullopt;
      });
    }
    (void)on_first_core([this, served]() -> core::Task<void> {
      changes_->leave(*served);
      co_return;
    });
    return wrong;
  }
  // Key files may have changed meanwhile, so they are read again now that they are watched.
  auto kept = std::make_unique<Kept>(next);
  const std::lock_guard lock(keeping_);
  if (!kept->keys.empty()) (void)kept->keys.reload();
  listeners_.serve_claimed(*next);
  logs_.use(std::move(*log_files));
  // This fails only if the server is ending, or if the system has withdrawn an address.
  kept->publish_keys();
  const auto switched = on_every_core([listeners = listeners_.served()](Worker& worker) -> std::optional<std::string> {
    worker.serve_next();
    worker.listen(listeners);
    return std::nullopt;
  });
  if (switched) log_error(*switched);
  const auto followed = on_first_core([this, next]() -> core::Task<void> {
    changes_->leave(*next);
    residents_->follow(*next);
    co_return;
  });
  if (followed) log_error("resident tables: " + *followed);
  for (const auto& resident : next->all<Plan::Resident>()) {
    resident->first = {};  // the cores have them
    resident->mark = {};
  }
  kept_ = std::move(kept);
  watch_expiry(*next);
  // The generation before this one has freed memory in small pieces, which the allocator would keep.
  (void)::malloc_trim(0);
  return std::nullopt;
}

std::optional<std::string> Reloader::build(const std::shared_ptr<const Plan>& next,
                                           const std::vector<net::Listening>& addresses) {
  auto built = on_every_core([next, addresses](Worker& worker) -> std::optional<std::string> {
    if (worker.draining()) return "the server is ending";
    worker.build_next(next);
    worker.bind(addresses);
    return std::nullopt;
  });
  if (built) return built;
  // The database listens for the changes of a new feed before clients can subscribe to it.
  return on_first_core([this, next] {
    changes_->join(*next);
    return changes_->settle();
  });
}

void Reloader::add_plan(std::shared_ptr<const Plan> plan) {
  for (const auto& database : plan->databases) {
    if (!contains(databases_, database)) databases_.push_back(database);
  }
  plans_.push_back(std::move(plan));
}

void Reloader::forget_plans() {
  const auto is_unused = [](const auto& one) { return one.use_count() == 1; };
  std::erase_if(plans_, is_unused);
  std::erase_if(databases_, is_unused);
}

void Reloader::start() {
  const std::lock_guard lock(starting_);
  asked_ = true;
  started_.notify_one();
}

void Reloader::run() {
  std::unique_lock lock(starting_);
  for (;;) {
    started_.wait(lock, [this] { return asked_ || over_; });
    if (over_) return;
    asked_ = false;
    lock.unlock();
    try {
      (void)reload();
    } catch (const std::bad_alloc&) {
      ++refused_;  // no memory to report why
    }
    lock.lock();
  }
}

bool Reloader::is_running() {
  const std::unique_lock lock(reloading_, std::try_to_lock);
  return !lock.owns_lock() || !explanation_.expired();
}

void Reloader::Kept::publish_keys() const {
  for (std::size_t i = 0; i < plan->policies.size(); ++i) {
    if (keys.keys()[i] != nullptr) plan->policies[i]->options.keys->publish(keys.keys()[i]);
  }
}

void Reloader::watch_expiry(const Plan& plan) {
  using runtime::CertificateExpiry;
  std::vector<CertificateExpiry::Used> used;
  CertificateExpiry::add(used, listeners_.served().tls.get(), "server", "client_ca");
  for (const auto& upstream : plan.all<UpstreamComponent>()) {
    CertificateExpiry::add(used, upstream->shared->tls.get(), "upstream", "upstream_ca");
  }
  for (const auto& source : plan.all<KeySourceComponent>()) {
    CertificateExpiry::add(used, source->shared->tls.get(), "jwks", "jwks_ca");
  }
  expiry_.set(std::move(used));
  expiry_.check(std::time(nullptr));
}

void Reloader::tend(bool told) {
  // A running reload does this itself.
  if (const std::unique_lock lock(reloading_, std::try_to_lock); lock) forget_plans();
  const std::lock_guard lock(keeping_);
  if (listeners_.tend(told)) {
    for (unsigned i = 0; i < workers_.size(); ++i) {
      (void)runtime::post(cores_.core(i), [&worker = *workers_[i], served = listeners_.served()] {
        worker.set_tls(served.tls, served.tickets);
      });
    }
    watch_expiry(*kept_->plan);
  }
  expiry_.check(std::time(nullptr));
  if (!kept_->keys.empty() && (told ? kept_->keys.reload() : kept_->keys.tend())) kept_->publish_keys();
}

std::shared_ptr<const Plan> Reloader::served() {
  const std::lock_guard lock(keeping_);
  return kept_->plan;
}

std::pair<std::shared_ptr<const Plan>, PolicyKeys::Keys> Reloader::served_with_keys() {
  const std::lock_guard lock(keeping_);
  return {kept_->plan, kept_->keys.keys()};
}

std::shared_ptr<const void> Reloader::begin_explanation() {
  if (!explanation_.expired()) return nullptr;
  auto turn = std::make_shared<const bool>();
  explanation_ = turn;
  return turn;
}

std::optional<Reloader::Attempt> Reloader::last() const {
  const std::lock_guard lock(attempting_);
  return last_;
}

Readings Reloader::readings() const {
  const auto of = [](const char* result, std::uint64_t count) {
    return counter("sluice_reloads_total", "Times that the configuration was to be read again, by what came of it.",
                   static_cast<double>(count), label("result", result));
  };
  Readings all{of("done", done_), of("refused", refused_)};
  append(all, expiry_.readings());
  return all;
}

}  // namespace sluice::app
