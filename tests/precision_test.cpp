// precision.hpp: what each combination of element types is stored as and computed in.
#include "imbrex/precision.hpp"

#include <concepts>

#include <gtest/gtest.h>

namespace {

using imbrex::bf16;
using imbrex::f16;
using imbrex::precision;
using imbrex::precision_policy;

template <class P, class Q, class K, class V, class O>
constexpr bool stores = std::same_as<typename P::query, Q>&& std::same_as<typename P::key, K>&&
    std::same_as<typename P::value, V>&& std::same_as<typename P::output, O>;

TEST(Precision, OneTypeStandsForAllFour) {
    static_assert(stores<precision<float>, float, float, float, float>);
    static_assert(stores<precision<double>, double, double, double, double>);
    static_assert(stores<precision<bf16>, bf16, bf16, bf16, bf16>);
    static_assert(stores<precision<f16>, f16, f16, f16, f16>);
}

TEST(Precision, ValuesAreStoredAsKeysAndTheOutputAsTheQueryUnlessSaidOtherwise) {
    static_assert(stores<precision<float, bf16>, float, bf16, bf16, float>);
    static_assert(stores<precision<float, bf16, f16>, float, bf16, f16, float>);
    static_assert(stores<precision<f16, float, bf16, float>, f16, float, bf16, float>);
}

TEST(Precision, ScoresAreInF32ForAllBut64BitElements) {
    static_assert(std::same_as<precision<float>::score, float> && std::same_as<precision<bf16>::score, float>);
    static_assert(std::same_as<precision<f16, bf16, float, f16>::score, float>);
    static_assert(std::same_as<precision<double>::score, double>);
}

TEST(Precision, ConstAndTheCompilersOwnTypesMapToTheLibrarysStorage) {
    static_assert(stores<precision<float const, bf16 const>, float, bf16, bf16, float>);
#if defined(__FLT16_MAX__) && defined(__x86_64__)
    static_assert(stores<precision<_Float16>, f16, f16, f16, f16>);
#endif
}

TEST(Precision, IsAPolicyAndSoIsAnyTypeWithTheSameNames) {
    struct own {
        using query = float;
        using key = bf16;
        using value = bf16;
        using output = float;
        using score = float;
    };
    struct lacks_score {
        using query = float;
        using key = float;
        using value = float;
        using output = float;
    };
    static_assert(precision_policy<precision<float>> && precision_policy<own>);
    static_assert(!precision_policy<lacks_score> && !precision_policy<float>);
}

}    // namespace
