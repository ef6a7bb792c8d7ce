// Many layouts, each against what one rank computes. A case is a struct with
//   std::string text() const;                      its name in messages
//   SessionOptions session(DType dtype) const;     what to run
//   Case alone() const;                            the same on one rank
#pragma once

#include <cstdlib>
#include <vector>

#include "tests/support/layout_run.h"

namespace tessera::test {

/// TESSERA_FULL asks for all cases, not a sample.
inline bool all_cases() { return std::getenv("TESSERA_FULL") != nullptr; }

/// As many steps as show a fault in the sample, and as many as we promise with all cases.
inline int case_steps() { return all_cases() ? 20 : 8; }

/// Of a run of one rank, once for all the cases that must agree with it.
template <class Case>
const LayoutResult& alone(LayoutResults& results, const Case& c, DType dtype, int steps) {
  const Case one = c.alone();
  return results.of(one.text(), one.session(dtype), steps);
}

/// Every `stride`-th case over some steps in f64, where rounding cannot hide a fault.
template <class Case>
void expect_cases_equal_one_rank(const std::vector<Case>& cases, std::size_t stride) {
  LayoutResults results;
  for (std::size_t i = 0; i < cases.size(); i += stride) {
    SCOPED_TRACE(cases[i].text());
    expect_same_layouts(run_layout(cases[i].session(DType::f64), case_steps()),
                        alone(results, cases[i], DType::f64, case_steps()), {});
    if (testing::Test::HasFailure()) return;
  }
}

/// The losses of every `stride`-th case over some steps in a shorter type.
template <class Case>
void expect_cases_near_one_rank(const std::vector<Case>& cases, std::size_t stride, DType dtype,
                                double tolerance) {
  LayoutResults results;
  for (std::size_t i = 0; i < cases.size(); i += stride) {
    SCOPED_TRACE(cases[i].text());
    const LayoutResult got = run_layout(cases[i].session(dtype), case_steps());
    const LayoutResult& want = alone(results, cases[i], dtype, case_steps());
    for (std::size_t step = 0; step < want.losses.size(); ++step)
      EXPECT_NEAR(got.losses[step], want.losses[step], tolerance * want.losses[step]) << step;
    expect_tensors_near(got.first_weights, want.first_weights, 0.0);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace tessera::test
