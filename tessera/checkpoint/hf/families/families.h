// The families of Hugging Face models, each defined in the file of its name.
#pragma once

#include "tessera/checkpoint/hf/hf_family.h"

namespace tessera {

extern const HfFamily kCohere;
extern const HfFamily kCohere2;
extern const HfFamily kGemma;
extern const HfFamily kGemma2;
extern const HfFamily kGemma3;
extern const HfFamily kGpt2;
extern const HfFamily kGptNeox;
extern const HfFamily kGranite;
extern const HfFamily kLlama;
extern const HfFamily kMistral;
extern const HfFamily kOlmo2;
extern const HfFamily kPhi3;
extern const HfFamily kQwen2;
extern const HfFamily kQwen3;

}  // namespace tessera
