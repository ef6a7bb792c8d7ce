#include "tessera/tensor/stream.h"

namespace tessera {

Stream::Stream(Device device)
    : device_(device), api_(device_api(device)), handle_(api_->stream_create()) {}
Stream::~Stream() { api_->stream_destroy(handle_); }

Event::Event(Device device) : api_(device_api(device)), handle_(api_->event_create()) {}
Event::~Event() { api_->event_destroy(handle_); }

Graph::Graph(Stream& stream, const std::function<void()>& body)
    : api_(device_api(stream.device())), handle_(api_->graph_capture(stream.native(), body)) {}
Graph::~Graph() { api_->graph_destroy(handle_); }

}  // namespace tessera
