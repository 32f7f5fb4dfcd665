#include "tools/lib/trace/judge/live_check.hpp"

namespace rtrs::trace {

void LiveCheck::on(const trace::Record& record) {
  const spec::Event* event = translator_.translate(record);
  if (event == nullptr) {
    if (const spec::DeviceEvent* device = translator_.translate_device(record))
      checker_.on(record.instance, *device);
    return;
  }
  checker_.on(record.instance, *event);
  if (event->kind != spec::Kind::WireCm && event->kind != spec::Kind::WireSent &&
      event->kind != spec::Kind::WireReceived)
    return;
  laws_.continue_trace(trace_);
  laws_.on(record.instance, *event);
}

}  // namespace rtrs::trace
