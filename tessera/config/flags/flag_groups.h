// The parts that the flag table is put together from.
#pragma once

#include <vector>

#include "tessera/config/flags/flag.h"

namespace tessera::config {

inline constexpr CommandSet kModelCommands = {Command::train, Command::inspect};
inline constexpr CommandSet kTrain = {Command::train};
inline constexpr CommandSet kWithModel = {Command::train, Command::generate, Command::evaluate,
                                          Command::inspect};

/// Appends rows that share a title and, unless they set their own, their commands.
void append(std::vector<Flag>& table, Group group, CommandSet commands, std::vector<Flag> flags);

void append_model_flags(std::vector<Flag>& table);
void append_layer_flags(std::vector<Flag>& table);
void append_expert_flags(std::vector<Flag>& table);
void append_run_flags(std::vector<Flag>& table);
void append_parallel_flags(std::vector<Flag>& table);
void append_pipeline_flags(std::vector<Flag>& table);
void append_optimizer_flags(std::vector<Flag>& table);
void append_data_flags(std::vector<Flag>& table);
void append_tokenizer_flags(std::vector<Flag>& table);
void append_preprocess_flags(std::vector<Flag>& table);
void append_checkpoint_flags(std::vector<Flag>& table);
void append_convert_flags(std::vector<Flag>& table);

}  // namespace tessera::config
