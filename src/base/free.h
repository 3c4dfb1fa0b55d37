#pragma once

namespace sluice {

// The deleter of a std::unique_ptr whose object a function of C takes back.
template <auto function>
struct Free {
  template <class T>
  void operator()(T* object) const {
    function(object);
  }
};

}  // namespace sluice
