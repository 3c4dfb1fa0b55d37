#pragma once

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/mesh.h"
#include "core/reactor.h"

namespace sluice::core {

// What an object that lives on one core may use of it. Outlives the object.
struct Here {
  Reactor& reactor;
  Mailbox& mailbox;
  MeshPort& mesh;
  BlockingPool& threads;
};

}  // namespace sluice::core
