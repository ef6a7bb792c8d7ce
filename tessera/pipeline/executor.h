// Runs one rank's program: receives the input of an action, runs it, sends its output. Sends start
// as soon as the output is ready; recvs are posted in advance if the transport allows it.
#pragma once

#include <vector>

#include "tessera/pipeline/channels.h"
#include "tessera/pipeline/program.h"
#include "tessera/pipeline/stage.h"
#include "tessera/tensor/trace.h"

namespace tessera {

/// Buffers for messages between stages, all of the same shape, in one block.
struct BoundaryBuffers {
  View memory;  ///< [buffers, bytes] of u8
  DType dtype = DType::f32;
  Shape shape;  ///< of a message

  View buffer(int i) const;
  static std::int64_t message_bytes(DType dtype, const Shape& shape);
};

class Executor {
 public:
  /// `stages` are those of the rank, by chunk.
  Executor(std::vector<Stage*> stages, PipelineChannels& channels, Stream& stream,
           BoundaryBuffers boundary_buffers, Trace* trace = nullptr);

  /// Activation buffers are assigned when a microbatch starts and returned when it is done.
  void run(const PipelineProgram& program);
  /// Runs the same actions without messages, on whatever the buffers contain. A GPU that runs a
  /// kernel for the first time may wait for all its streams, and with that for recvs that were
  /// posted. After a warm-up nothing runs for the first time.
  void warm_up(const PipelineProgram& program);

  /// The maxima over all runs so far.
  struct Peak {
    int activation_buffers = 0;
    int messages = 0;  ///< posted and not used yet, or produced and not known to be received
  };
  const Peak& peak() const { return peak_; }

 private:
  struct Receiving {
    int first_buffer = 0;
    int asked = 0;                  ///< number of messages with a posted recv
    std::vector<WorkHandle> works;  ///< by place in the window, not waited for
    std::vector<bool> used;         ///< by message
  };
  struct Sending {
    int first_buffer = 0;
    std::vector<WorkHandle> works;  ///< by buffer, not waited for
  };
  struct Holder {
    int microbatch = -1;
    int chunk = 0;
    bool operator==(const Holder&) const = default;
  };

  void lay_out(const PipelineProgram& program);
  void ask(int channel, int up_to);
  void ask_early(const PipelineProgram::Boundary& boundary);
  View incoming(const PipelineProgram::Boundary& boundary);
  void used(const PipelineProgram::Boundary& boundary);
  View outgoing(const PipelineProgram::Boundary& boundary);
  void send(const PipelineProgram::Boundary& boundary);
  void run_action(const Action& action, const View& out, const View& in);
  void finish();
  void hold_message();
  int take_activation_buffer(const Action& action);
  int find_activation_buffer(const Action& action) const;
  void free_activation_buffer(const Action& action);

  std::vector<Stage*> stages_;
  PipelineChannels& channels_;
  Stream& stream_;
  BoundaryBuffers boundary_buffers_;
  Trace* trace_;
  const PipelineProgram* program_ = nullptr;
  std::vector<Receiving> receiving_;
  std::vector<Sending> sending_;
  std::vector<Holder> holders_;  ///< the microbatch in each activation buffer
  Peak held_;                    ///< current values
  Peak peak_;
};

}  // namespace tessera
