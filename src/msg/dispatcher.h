#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/task.h"
#include "msg/flatbuffer.h"
#include "msg/frame.h"
#include "msg/session.h"

namespace sluice::msg {

// Limits of a message that is a FlatBuffer. Together they bound the time that its verification takes: with the
// defaults, a malicious body takes about 1 ms (see verified()).
struct TableLimits {
  std::size_t most_body = 64 * 1024;  // bytes
  std::uint32_t most_tables = 64;     // with the root
};

// Which function handles which message id, on one core. Filled before the core runs, then only read.
//
// Handlers are called in the order of a session's frames, one at a time: while a handler's task waits, the session's
// next frame waits, too. The frame, its body and a verified table are valid until the handler returns, or its task
// ends. If the session ends first, the task is cancelled.
class Dispatcher {
 public:
  // An empty Task: the handler is done.
  using Handler = std::move_only_function<core::Task<void>(Session&, const Frame&)>;

  // `handler` is called as handler(session, frame). It may return a core::Task<void>; other results are dropped. Throws
  // std::invalid_argument if the id has a handler already, or is reserved (from first_reserved_id on).
  template <class Fn>
    requires std::invocable<Fn&, Session&, const Frame&>
  void on(std::uint32_t id, Fn handler) {
    add(id, Handler([handler = std::move(handler)](Session& session, const Frame& frame) mutable -> core::Task<void> {
          return finish(handler, session, frame);
        }));
  }
  // For messages whose body is a FlatBuffer with the root table T. `handler` is called as handler(session, table) or
  // handler(session, table, frame). A body that is not valid, or beyond the limits, is answered with
  // ErrorCode::bad_payload.
  template <class T, class Fn>
  void on(std::uint32_t id, Fn handler, TableLimits limits = {}) {
    add(id, Handler([handler = std::move(handler), limits](Session& session,
                                                           const Frame& frame) mutable -> core::Task<void> {
          const T* const table =
              frame.body.size() <= limits.most_body ? verified<T>(frame.body, limits.most_tables) : nullptr;
          if (table == nullptr) {
            session.send_error(frame, ErrorCode::bad_payload, "The body is not valid for this message.");
            return {};
          }
          if constexpr (std::invocable<Fn&, Session&, const T&, const Frame&>) {
            return finish(handler, session, *table, frame);
          } else {
            return finish(handler, session, *table);
          }
        }));
  }
  // For all other ids. Without it, they are answered with ErrorCode::unknown_message. Throws std::invalid_argument if
  // it was called before.
  template <class Fn>
    requires std::invocable<Fn&, Session&, const Frame&>
  void otherwise(Fn handler) {
    if (otherwise_) throw std::invalid_argument("otherwise() has been called before");
    otherwise_ = [handler = std::move(handler)](Session& session, const Frame& frame) mutable -> core::Task<void> {
      return finish(handler, session, frame);
    };
  }

  [[nodiscard]] core::Task<void> dispatch(Session& session, const Frame& frame) {
    if (Handler* const found = find(frame.id)) return (*found)(session, frame);
    return answer_unknown(session, frame);
  }

 private:
  struct Slot {
    std::uint32_t id = 0;
    std::uint32_t handler = 0;  // index + 1; 0: the slot is empty
  };

  template <class Fn, class... Arguments>
  static core::Task<void> finish(Fn& handler, Arguments&... arguments) {
    if constexpr (std::is_same_v<std::invoke_result_t<Fn&, Arguments&...>, core::Task<void>>) {
      return handler(arguments...);
    } else {
      (void)handler(arguments...);
      return {};
    }
  }

  // An open-addressing table at most half full, so a look-up reads one or two cache lines.
  [[nodiscard]] std::size_t home(std::uint32_t id) const { return (id * 0x9E3779B1U >> 7) & (slots_.size() - 1); }
  [[nodiscard]] Handler* find(std::uint32_t id) {
    if (slots_.empty()) return nullptr;
    for (std::size_t at = home(id);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.handler == 0) return nullptr;
      if (slot.id == id) return &handlers_[slot.handler - 1];
    }
  }
  void add(std::uint32_t id, Handler handler);
  core::Task<void> answer_unknown(Session& session, const Frame& frame);

  std::vector<Handler> handlers_;
  std::vector<Slot> slots_;
  Handler otherwise_;
};

}  // namespace sluice::msg
