// Runs one rank's program: receives what an action needs, runs it, sends what it made. Messages go
// off when they are made, and where the transport can, they are asked for before they are needed.
#pragma once

#include <vector>

#include "tessera/pipeline/channels.h"
#include "tessera/pipeline/program.h"
#include "tessera/pipeline/stage.h"
#include "tessera/tensor/trace.h"

namespace tessera {

/// Room for what passes between stages: buffers of one shape, one behind the other.
struct BoundaryBuffers {
  View memory;  ///< [buffers, bytes] of u8
  DType dtype = DType::f32;
  Shape shape;  ///< of a message

  View buffer(int i) const;
  static std::int64_t message_bytes(DType dtype, const Shape& shape);
};

class Executor {
 public:
  /// `stages` are the rank's, by chunk.
  Executor(std::vector<Stage*> stages, PipelineChannels& channels, Stream& stream,
           BoundaryBuffers boundary_buffers, Trace* trace = nullptr);

  /// Activation buffers are assigned as microbatches start and return when they are done.
  void run(const PipelineProgram& program);
  /// The same actions without a message: on what lies in the buffers. A GPU that runs something for
  /// the first time may wait for all its streams, and so for messages that were asked for; after a
  /// warm-up nothing is for the first time.
  void warm_up(const PipelineProgram& program);

  /// The most that was held at once in any run so far.
  struct Peak {
    int activation_buffers = 0;
    int messages = 0;  ///< asked for and not used yet, or made and not known to be received
  };
  const Peak& peak() const { return peak_; }

 private:
  struct Receiving {
    int first_buffer = 0;
    int asked = 0;                  ///< messages that were asked for
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
  Peak held_;                    ///< now
  Peak peak_;
};

}  // namespace tessera
