#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/time.h"
#include "core/mesh.h"

namespace sluice::core {

// An object that has a part on each core. A part is used by its own core alone; the others reach it by messages, which
// look it up when they arrive. So a message may come before its part is there, or after it has gone: it is then
// dropped, and a part that comes late asks for what it must know. Messages of one core arrive in its order, and a full
// ring only delays them. A core that is ending gets none.
//
// Copies name the same parts.
template <class Part>
class Sharded {
 public:
  explicit Sharded(unsigned cores) : parts_(std::make_shared<std::vector<Part*>>(cores)) {}

  bool operator==(const Sharded&) const = default;  // the same parts

  [[nodiscard]] unsigned cores() const { return static_cast<unsigned>(parts_->size()); }

  // The part of the calling core, `core`; null if it has none.
  [[nodiscard]] Part* at(unsigned core) const { return (*parts_)[core]; }
  [[nodiscard]] Part* here(const MeshPort& port) const { return at(port.core()); }

  // Makes an object the part of its core while the entry lives. Made and destroyed on that core.
  class Entry {
   public:
    Entry(const Sharded& of, unsigned core, Part& part) : parts_(of.parts_), core_(core) {
      SLUICE_ASSERT((*parts_)[core] == nullptr);
      (*parts_)[core] = &part;
    }
    Entry(const Entry&) = delete;
    ~Entry() { (*parts_)[core_] = nullptr; }

   private:
    const std::shared_ptr<std::vector<Part*>> parts_;
    const unsigned core_;
  };

  // Calls fn(part) on `core`: at once if that is the calling core, else in a later step of that core's loop. `fn` must
  // not throw, nor own memory of the calling core's slab. Returns false if that core is ending.
  template <std::invocable<Part&> Fn>
  bool send(MeshPort& from, unsigned core, Fn fn) const {
    if (core != from.core()) {
      return from.send(core, [self = *this, fn = std::move(fn)](MeshPort& there) mutable {
        if (Part* const part = self.here(there)) fn(*part);
      });
    }
    if (Part* const part = at(core)) fn(*part);
    return true;
  }
  // Calls a copy of fn(part) on every core.
  template <std::copy_constructible Fn>
  void each(MeshPort& from, Fn fn) const {
    for (unsigned core = 0; core < cores(); ++core) (void)send(from, core, fn);
  }

  // Result<R> answer = co_await parts.call(port, core, deadline, fn): what fn(part, port) returned there, with null for
  // a part that is not there; a Task is awaited, and must look the part up again after each wait. Errors as for
  // MeshPort::call().
  template <class Fn>
  [[nodiscard]] auto call(MeshPort& from, unsigned core, Instant deadline, Fn fn) const {
    return from.call(core, deadline, [self = *this, fn = std::move(fn)](MeshPort& there) mutable {
      return fn(self.here(there), there);
    });
  }

 private:
  std::shared_ptr<std::vector<Part*>> parts_;  // by core; each core uses its own
};

}  // namespace sluice::core
