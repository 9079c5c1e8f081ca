// rows.hpp: row sets, and the division that pages are found by.
#include "imbrex/rows.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace imbrex_test {
namespace {

using imbrex::index;
using imbrex::page_division;

TEST(PageDivision, IsExactForEveryLengthAndSize) {
    constexpr index most = (index{1} << 31) - 1;
    std::mt19937_64 engine{20250611};
    auto const expect_exact = [&](index d) {
        page_division const division{d};
        EXPECT_EQ(division.divisor(), d);
        for (index const near : {index{0}, d, 2 * d, most / d * d, most}) {
            for (index n = std::max<index>(0, near - 2); n <= std::min(most, near + 2); ++n) ASSERT_EQ(division.quotient(n), n / d) << n << " / " << d;
        }
        for (int i = 0; i < 200; ++i) {
            index const n = static_cast<index>(engine() >> 33);
            ASSERT_EQ(division.quotient(n), n / d) << n << " / " << d;
        }
    };
    for (index d = 1; d <= 3000; ++d) expect_exact(d);
    for (index bit = 0; bit < 31; ++bit) {
        for (index d = std::max<index>(1, (index{1} << bit) - 1); d <= (index{1} << bit) + 1; ++d) expect_exact(d);
    }
    for (int i = 0; i < 3000; ++i) expect_exact(std::max<index>(1, static_cast<index>(engine() >> 33)));
    expect_exact(most);
}

std::vector<float> const numbers = [] {
    std::vector<float> v(1000);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
    return v;
}();

template <imbrex::row_set R>
void expect_rows(R const& set, std::vector<float> const& first_elements) {
    index const n = std::ssize(first_elements);
    imbrex::row_walk walk{set, 0};
    for (index j = 0; j < n; ++j, ++walk) {
        float const right = first_elements[static_cast<std::size_t>(j)];
        EXPECT_EQ(*set.row(j), right);
        EXPECT_EQ(**walk, right);
        EXPECT_EQ(*set.from(j).row(0), right);
        EXPECT_EQ(*set.from(1).row(j - 1), right);
        for (index count = 1; j + count <= n; ++count) {    // a run is told only where it is one
            if (auto const run = set.from(j).in_one_run(count)) {
                for (index i = 0; i < count; ++i) EXPECT_EQ(*run->row(i), first_elements[static_cast<std::size_t>(j + i)]);
            }
        }
    }
}

TEST(Rows, AreAStrideApart) { expect_rows(imbrex::rows<float>{numbers.data() + 5, 10}, {5, 15, 25, 35}); }

TEST(Rows, InTwoRunsAreThoseOfOneAfterTheOther) {
    imbrex::rows<float> const a{numbers.data(), 10}, b{numbers.data() + 500, 20};
    imbrex::split_rows<float> const both{a, b, 0, 3}, late{a, b, -2, 1};
    expect_rows(both, {0, 10, 20, 500, 520, 540});
    expect_rows(late, {20, 500, 520});
    EXPECT_TRUE(both.in_one_run(3) && both.from(3).in_one_run(3));
    EXPECT_FALSE(both.in_one_run(4) || both.from(2).in_one_run(2));
}

TEST(Rows, InPagesAreWhereTheTableSays) {
    imbrex::position const ids[] = {3, 0, 2};
    imbrex::paged_rows<float> const pages{numbers.data(), ids, 100, 7, page_division{4}, 0};
    expect_rows(pages, {300, 307, 314, 321, 0, 7, 14, 21, 200, 207});
    EXPECT_TRUE(pages.in_one_run(4) && pages.from(5).in_one_run(3));
    EXPECT_FALSE(pages.in_one_run(5) || pages.from(3).in_one_run(2));
    imbrex::paged_rows<float> const single{numbers.data(), ids, 100, 7, page_division{1}, 0};
    expect_rows(single, {300, 0, 200});
}

}    // namespace
}    // namespace imbrex_test
