#include "tessera/parallel/mesh_picture.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

ParallelOptions degrees(int tensor, int context, int data, int pipeline) {
  ParallelOptions options;
  options.tensor = tensor;
  options.context = context;
  options.data = data;
  options.pipeline = pipeline;
  return options;
}

TEST(MeshBanner, NamesWhatIsSplit) {
  EXPECT_EQ(mesh_banner({}, 1), "1 rank: data 1");
  ParallelOptions options = degrees(4, 1, 1, 1);
  EXPECT_EQ(mesh_banner(options, 4), "4 ranks: tensor 4 x data 1");
  options.sequence_parallel = true;
  EXPECT_EQ(mesh_banner(options, 4), "4 ranks: tensor 4 (sequence parallel) x data 1");
  options.sequence_parallel = false;
  options.tensor_2d = 2;
  EXPECT_EQ(mesh_banner(options, 4), "4 ranks: tensor 4 (a 2 x 2 grid) x data 1");
  options = degrees(2, 3, 4, 5);
  EXPECT_EQ(mesh_banner(options, 120), "120 ranks: tensor 2 x context 3 x data 4 x pipeline 5");
  EXPECT_EQ(mesh_banner(options, 120, "ZB-H1"),
            "120 ranks: tensor 2 x context 3 x data 4 x pipeline 5 (ZB-H1)");
  options.expert = 8;
  options.expert_tensor = 1;
  EXPECT_EQ(mesh_banner(options, 120),
            "120 ranks: tensor 2 x context 3 x data 4 x pipeline 5; "
            "experts: tensor 1 x expert 8 x data 3 x pipeline 5");
}

TEST(MeshPicture, OfOneRank) {
  EXPECT_EQ(mesh_picture({}, 1), R"(1 rank: data 1

            cp 0
pp 0  dp 0  [0]

rank = tp + TP (cp + CP (dp + DP pp)); [ ] holds tp 0, 1, ...
)");
}

TEST(MeshPicture, HasAPlaceForEveryRank) {
  EXPECT_EQ(mesh_picture(degrees(2, 2, 2, 2), 16),
            R"(16 ranks: tensor 2 x context 2 x data 2 x pipeline 2

            cp 0     cp 1
pp 0  dp 0  [ 0  1]  [ 2  3]
      dp 1  [ 4  5]  [ 6  7]
pp 1  dp 0  [ 8  9]  [10 11]
      dp 1  [12 13]  [14 15]

rank = tp + TP (cp + CP (dp + DP pp)); [ ] holds tp 0, 1, ...

groups (number of size: members)
  tensor          8 of 2: {0 1} {2 3} {4 5} {6 7} {8 9} {10 11} {12 13} {14 15}
  context         8 of 2: {0 2} {1 3} {4 6} {5 7} {8 10} {9 11} {12 14} {13 15}
  data            8 of 2: {0 4} {1 5} {2 6} {3 7} {8 12} {9 13} {10 14} {11 15}
  pipeline        8 of 2: {0 8} {1 9} {2 10} {3 11} {4 12} {5 13} {6 14} {7 15}
)");
}

TEST(MeshPicture, DrawsGridsAsSquares) {
  ParallelOptions options = degrees(4, 1, 2, 1);
  options.tensor_2d = 2;
  EXPECT_EQ(mesh_picture(options, 8), R"(8 ranks: tensor 4 (a 2 x 2 grid) x data 2

            cp 0
pp 0  dp 0  [0 1]
            [2 3]
      dp 1  [4 5]
            [6 7]

rank = tp + TP (cp + CP (dp + DP pp)); [ ] holds tp 0, 1, ... row by row

groups (number of size: members)
  tensor          2 of 4: {0 1 2 3} {4 5 6 7}
  tensor row      4 of 2: {0 1} {2 3} {4 5} {6 7}
  tensor column   4 of 2: {0 2} {1 3} {4 6} {5 7}
  data            4 of 2: {0 4} {1 5} {2 6} {3 7}
)");
}

TEST(MeshPicture, DrawsTheExpertsBesideIt) {
  ParallelOptions options = degrees(2, 1, 2, 2);
  options.expert = 4;
  options.expert_tensor = 1;
  EXPECT_EQ(
      mesh_picture(options, 8),
      R"(8 ranks: tensor 2 x data 2 x pipeline 2; experts: tensor 1 x expert 4 x data 1 x pipeline 2

all but experts        experts
            cp 0                    ep 0  ep 1  ep 2  ep 3
pp 0  dp 0  [0 1]      pp 0  edp 0  [0]   [1]   [2]   [3]
      dp 1  [2 3]      pp 1  edp 0  [4]   [5]   [6]   [7]
pp 1  dp 0  [4 5]
      dp 1  [6 7]

rank = tp + TP (cp + CP (dp + DP pp)); [ ] holds tp 0, 1, ...
rank = etp + ETP (ep + EP (edp + EDP pp)); [ ] holds etp 0, 1, ...

groups (number of size: members)
  tensor          4 of 2: {0 1} {2 3} {4 5} {6 7}
  data            4 of 2: {0 2} {1 3} {4 6} {5 7}
  pipeline        4 of 2: {0 4} {1 5} {2 6} {3 7}
  expert          2 of 4: {0 1 2 3} {4 5 6 7}
)");
}

TEST(MeshPicture, ShortensLongAxes) {
  ParallelOptions options = degrees(256, 1, 12, 6);
  options.tensor_2d = 16;
  EXPECT_EQ(mesh_picture(options, 18432),
            R"(18432 ranks: tensor 256 (a 16 x 16 grid) x data 12 x pipeline 6

             cp 0
pp 0  dp 0   [    0     1 ...    15]
             [   16    17 ...    31]
             ...
             [  240   241 ...   255]
      dp 1   [  256   257 ...   271]
             [  272   273 ...   287]
             ...
             [  496   497 ...   511]
      ...
      dp 11  [ 2816  2817 ...  2831]
             [ 2832  2833 ...  2847]
             ...
             [ 3056  3057 ...  3071]
pp 1  dp 0   [ 3072  3073 ...  3087]
             [ 3088  3089 ...  3103]
             ...
             [ 3312  3313 ...  3327]
      dp 1   [ 3328  3329 ...  3343]
             [ 3344  3345 ...  3359]
             ...
             [ 3568  3569 ...  3583]
      ...
      dp 11  [ 5888  5889 ...  5903]
             [ 5904  5905 ...  5919]
             ...
             [ 6128  6129 ...  6143]
...
pp 5  dp 0   [15360 15361 ... 15375]
             [15376 15377 ... 15391]
             ...
             [15600 15601 ... 15615]
      dp 1   [15616 15617 ... 15631]
             [15632 15633 ... 15647]
             ...
             [15856 15857 ... 15871]
      ...
      dp 11  [18176 18177 ... 18191]
             [18192 18193 ... 18207]
             ...
             [18416 18417 ... 18431]

rank = tp + TP (cp + CP (dp + DP pp)); [ ] holds tp 0, 1, ... row by row

groups (number of size: members)
  tensor          72 of 256: {0 1 ... 255} {256 257 ... 511} ... {18176 18177 ... 18431}
  tensor row      1152 of 16: {0 1 ... 15} {16 17 ... 31} ... {18416 18417 ... 18431}
  tensor column   1152 of 16: {0 16 ... 240} {1 17 ... 241} ... {18191 18207 ... 18431}
  data            1536 of 12: {0 256 ... 2816} {1 257 ... 2817} ... {15615 15871 ... 18431}
  pipeline        3072 of 6: {0 3072 ... 15360} {1 3073 ... 15361} ... {3071 6143 ... 18431}
)");
}

}  // namespace
}  // namespace tessera
