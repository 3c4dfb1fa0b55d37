#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/components/feed/changes.h"
#include "app/components/policy/policy_keys.h"
#include "app/components/resident/residents.h"
#include "app/listeners.h"
#include "app/plan.h"
#include "base/logs.h"
#include "base/reading.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "net/resolver.h"
#include "runtime/certificate_expiry.h"
#include "runtime/manager.h"
#include "runtime/process.h"

namespace sluice::app {

class Worker;

// Reads the configuration again while the program runs, and makes every core serve it. Refuses a configuration that
// differs in options that only a restart can change. A configuration with errors changes nothing.
class Reloader {
 public:
  // `file`: the path as given on the command line. `plan`: the plan that is served. Entries of `workers` may be null
  // until all cores run. All arguments outlive this object. Throws if the shared parts of the plan's databases cannot
  // be set up.
  Reloader(std::string file, std::shared_ptr<const Plan> plan, std::span<Worker* const> workers, Listeners& listeners,
           runtime::Process& process);
  Reloader(const Reloader&) = delete;
  // Must be destroyed after the cores.
  ~Reloader();

  // Sets the objects of the first core. Called before any reload.
  void set_keepers(Changes& changes, Residents& residents) {
    changes_ = &changes;
    residents_ = &residents;
  }

  // Returns what was wrong, or nothing. After success, the new configuration answers every request that begins. Blocks,
  // also while another reload runs, so a core must run it on threads().
  [[nodiscard]] std::optional<std::string> reload();
  [[nodiscard]] core::BlockingPool& threads() { return threads_; }
  // Runs reload() on a separate thread, after the reload that runs there. Errors are logged.
  void start();
  // After this no reload begins.
  void end() { ending_ = true; }
  // Whether a reload or an explanation is running. It may wait for a database: up to `start_timeout` for each answer.
  [[nodiscard]] bool is_running();

  // Checks the key and certificate files of the plan that is served, and frees plans that are no longer used. `told`:
  // reads the files even if they have not changed. Must not be called on a core.
  void tend(bool told);
  [[nodiscard]] std::shared_ptr<const Plan> served();
  // With the current keys of its policies. Must not be called on a core.
  [[nodiscard]] std::pair<std::shared_ptr<const Plan>, PolicyKeys::Keys> served_with_keys();
  // Permits one explanation on threads(), for as long as its result lives. Null while another runs. Called by the first
  // core.
  [[nodiscard]] std::shared_ptr<const void> begin_explanation();
  [[nodiscard]] Readings readings() const;
  // An attempt to read the configuration again.
  struct Attempt {
    std::int64_t unix_s = 0;
    std::string error;  // empty: it succeeded
  };
  // The last attempt. Nothing: there has been none. May be called on a core.
  [[nodiscard]] std::optional<Attempt> last() const;

 private:
  // The keys of one plan.
  struct Kept {
    explicit Kept(std::shared_ptr<const Plan> served)
        : plan(std::move(served)), keys(plan->options.policies, plan->keys) {}
    std::shared_ptr<const Plan> plan;
    PolicyKeys keys;
    // From now on the policies verify with them.
    void publish_keys() const;
  };

  [[nodiscard]] std::optional<std::string> try_reload();
  // Runs `what(worker)` on every core and waits for all. Returns the message of an exception, or says that a core has
  // ended.
  template <class Fn>
  [[nodiscard]] std::optional<std::string> on_every_core(Fn what);

  // Runs the task `what()` on the first core and waits for it. Returns the message of an exception, or says that the
  // core has ended.
  template <class Fn>
  [[nodiscard]] std::optional<std::string> on_first_core(Fn what);
  [[nodiscard]] std::optional<std::string> build(const std::shared_ptr<const Plan>& next,
                                                 const std::vector<net::Listening>& addresses);
  // Destroys plans that no core uses any more, and the shared parts of databases. A core must not do that, because the
  // destructor of a shared part waits for a thread.
  void forget_plans();
  void add_plan(std::shared_ptr<const Plan> plan);
  // Has the certificates of the plan and of the listeners watched for their expiry.
  void watch_expiry(const Plan& plan);
  void run();

  const std::string file_;
  const std::shared_ptr<const Plan> first_;
  std::optional<net::Resolver> resolver_;
  Changes* changes_ = nullptr;
  Residents* residents_ = nullptr;
  const std::span<Worker* const> workers_;
  core::Cores& cores_;
  Listeners& listeners_;
  runtime::Notifier& notifier_;
  Logs& logs_;
  std::mutex reloading_;                                    // guards plans_ and databases_
  std::vector<std::shared_ptr<const Plan>> plans_;          // were served, and may still be in use
  std::vector<std::shared_ptr<Plan::Database>> databases_;  // likewise
  std::mutex keeping_;                                      // guards kept_, and the plan that listeners_ serves
  std::unique_ptr<Kept> kept_;
  runtime::CertificateExpiry expiry_;
  std::mutex starting_;  // guards the members below
  std::condition_variable started_;
  bool asked_ = false;
  bool over_ = false;
  std::thread thread_;  // created at start, because later there may be too few resources for a thread
  std::atomic<bool> ending_{false};
  std::weak_ptr<const void> explanation_;
  core::BlockingPool threads_{2, 16};  // two, because an explanation may wait for a database
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> refused_{0};
  mutable std::mutex attempting_;  // guards last_
  std::optional<Attempt> last_;
};

}  // namespace sluice::app
