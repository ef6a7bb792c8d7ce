// Everything that a program needs to train a model with Tessera: options, `train`, metrics, errors.
// It includes all headers that are installed; examples/embed shows its use.
#pragma once

#include "tessera/base/check.h"       // Error, InputError
#include "tessera/observe/metrics.h"  // StepMetrics, EvaluationMetrics
#include "tessera/options/options.h"  // Options
#include "tessera/run/train.h"        // train, train_options
