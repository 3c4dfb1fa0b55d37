#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "app/changes.h"
#include "app/listeners.h"
#include "app/plan.h"
#include "app/policy_keys.h"
#include "app/residents.h"
#include "base/reading.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "net/resolver.h"

namespace sluice::app {

class Worker;

// Reads the configuration again while the program runs, and has every core serve what it says. What only a restart
// changes is refused, if it differs. A file that is wrong changes nothing.
class Reloader {
 public:
  // `file`: as it was given. `plan`: what is served. `workers` may be null until all cores run. All outlive it. Throws
  // what the databases of the plan cannot share.
  Reloader(std::string file, std::shared_ptr<const Plan> plan, std::span<Worker* const> workers, core::Cores& cores,
           Listeners& listeners);
  Reloader(const Reloader&) = delete;
  // After the cores.
  ~Reloader();

  // Those of the first core, before any reload.
  void set_keepers(Changes& changes, Residents& residents) {
    changes_ = &changes;
    residents_ = &residents;
  }

  // What was wrong; nothing: every request that begins from now on is answered by the new configuration. It blocks,
  // also while another one runs; not for a core, which has threads() run it.
  [[nodiscard]] std::optional<std::string> reload();
  [[nodiscard]] core::BlockingPool& threads() { return threads_; }
  // The same on a thread of its own, after the one that runs there; what is wrong goes into the log.
  void start();
  // No reload begins any more.
  void end() { ending_ = true; }
  // One runs. A database may keep it waiting: for each answer as long as its `start_timeout`.
  [[nodiscard]] bool is_running();

  // Tends the keys and certificates of what is served, and lets go of what nobody needs any more; `told`: reads them
  // again in any case. Not for a core.
  void tend(bool told);
  [[nodiscard]] std::shared_ptr<const Plan> served();
  [[nodiscard]] Readings readings() const;

 private:
  // Keys of one plan.
  struct Kept {
    explicit Kept(std::shared_ptr<const Plan> served)
        : plan(std::move(served)), keys(plan->options.policies, plan->keys) {}
    std::shared_ptr<const Plan> plan;
    PolicyKeys keys;
  };

  [[nodiscard]] std::optional<std::string> try_reload();
  // Runs `what(worker)` on every core and waits for all; what one of them has thrown, or that it has ended.
  template <class Fn>
  [[nodiscard]] std::optional<std::string> on_every_core(Fn what);

  // Runs `what()`, a task, on the first core until it is done; what it has thrown, or that the core has ended.
  template <class Fn>
  [[nodiscard]] std::optional<std::string> on_first_core(Fn what);
  [[nodiscard]] std::optional<std::string> build(const std::shared_ptr<const Plan>& next,
                                                 const std::vector<http::Listening>& addresses);
  // Plans that no core has any more go here, and what their databases share.
  void forget_plans();
  template <class Fn>
  void post_to_every_core(Fn what);
  void run();

  const std::string file_;
  const std::shared_ptr<const Plan> first_;
  std::optional<net::Resolver> resolver_;
  Changes* changes_ = nullptr;
  Residents* residents_ = nullptr;
  const std::span<Worker* const> workers_;
  core::Cores& cores_;
  Listeners& listeners_;
  std::mutex reloading_;                            // guards plans_
  std::vector<std::shared_ptr<const Plan>> plans_;  // that were served, and may still be
  std::mutex keeping_;                              // guards kept_, and what listeners_ serves
  std::unique_ptr<Kept> kept_;
  std::mutex starting_;  // guards what follows
  std::thread thread_;
  bool runs_ = false;  // thread_
  bool asked_ = false;
  std::atomic<bool> ending_{false};
  core::BlockingPool threads_{1, 16};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace sluice::app
