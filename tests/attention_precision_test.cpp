// One element type for everything.
#include "attention_precisions.hpp"

namespace imbrex_test {
namespace {

using imbrex::bf16;
using imbrex::f16;
using imbrex::precision;

using uniform = testing::Types<precision<float>, precision<double>, precision<bf16>, precision<f16>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Uniform, AttentionPrecisions, uniform, precision_names);

}    // namespace
}    // namespace imbrex_test
