#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <new>

#include "base/buffer.h"
#include "core/reactor.h"
#include "net/stream.h"
#include "sql/postgres/messages.h"

namespace sluice::sql::postgres {

// Bytes received from a server, split into messages. A message that has been taken stays in memory, with those before
// it, until drop(), because rows are views into it.
//
//   bytes = [ kept | not yet parsed ];   needed: the size of the incomplete message after `kept`, if known
class Inbox {
 public:
  // Takes the next message if it is complete. Its views last until drop() or receive().
  [[nodiscard]] Framing take(std::size_t limit, Message& message) {
    const Framing framing = frame(bytes_.data() + kept_, bytes_.size() - kept_, limit, message);
    if (framing == Framing::complete) {
      kept_ += message.size;
      needed_ = 0;
    } else {
      needed_ = message.size;
    }
    return framing;
  }
  // The type of the next message. Precondition: take() has returned its size, or has_more().
  [[nodiscard]] char type_of_next() const { return bytes_.data()[kept_]; }

  [[nodiscard]] std::size_t kept() const { return kept_; }
  [[nodiscard]] bool has_more() const { return bytes_.size() > kept_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] const char* data() const { return bytes_.data(); }
  void drop() {
    bytes_.consume(kept_);
    kept_ = 0;
  }
  // Drops all received bytes, and the rest of an incomplete message of `message_size` bytes when it arrives.
  void skip_next(std::size_t message_size) {
    skip_ = kept_ + message_size - bytes_.size();
    bytes_.clear();
    kept_ = needed_ = 0;
  }

  // Reads the socket once, with enough room for the incomplete message.
  [[nodiscard]] core::Io receive(net::Stream& stream) {
    const std::size_t there = bytes_.size() - kept_;
    char* room = nullptr;
    try {
      room = bytes_.reserve(std::max(read_bytes, needed_ > there ? needed_ - there : 0));
    } catch (const std::bad_alloc&) {
      return {.error = ENOMEM};
    }
    const core::Io io = stream.try_read(room, bytes_.writable());
    if (!io.ok() || io.bytes == 0) return io;
    bytes_.commit(io.bytes);
    if (skip_ != 0) {
      const std::size_t dropped = std::min(skip_, bytes_.size());
      bytes_.consume(dropped);
      skip_ -= dropped;
    }
    return io;
  }

  // Releases the memory of a large message. Does nothing while bytes are held.
  void shrink() {
    if (bytes_.empty() && bytes_.capacity() > kept_capacity) bytes_.release();
  }
  void release() {
    bytes_.release();
    kept_ = needed_ = skip_ = 0;
  }

  // For the start of a session, which consumes what it reads. Precondition: nothing is kept.
  [[nodiscard]] Buffer& bytes() { return bytes_; }

  static constexpr std::size_t kept_capacity = 512 << 10;

 private:
  static constexpr std::size_t read_bytes = 64 << 10;  // minimum that one read asks for

  Buffer bytes_;
  std::size_t kept_ = 0;
  std::size_t needed_ = 0;
  std::size_t skip_ = 0;  // bytes still to come that will be dropped
};

}  // namespace sluice::sql::postgres
