// Rules between options, in parts. Each adds a line per broken rule: the rule, the values, and what
// to change. Values are taken as resolved (resolve.h).
#pragma once

#include "tessera/config/options.h"
#include "tessera/config/problems.h"

namespace tessera::config {

void model_rules(const ModelOptions& model, Problems& problems);

/// Whether the data fits the model: vocabulary and positions.
void fit_rules(const Options& options, Problems& problems);

void tokenizer_rules(const DataOptions& data, Problems& problems);
void split_rules(const DataOptions& data, Problems& problems);
void device_rules(const Options& options, Problems& problems);

void train_rules(const Options& options, Problems& problems);
void generate_rules(const Settings& settings, Problems& problems);
void evaluate_rules(const Settings& settings, Problems& problems);
void preprocess_rules(const Settings& settings, Problems& problems);

}  // namespace tessera::config
