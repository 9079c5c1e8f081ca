// rules/full.hpp: everything is seen.
#include "imbrex/rules/full.hpp"

#include "rules/soundness.hpp"

namespace imbrex_test {
namespace {

using imbrex::full;

TEST(Full, KeepsEverythingAndItsShortcutsSaySo) {
    for_each_context([](head_context const& ctx) {
        for_each_window(ctx, [&](tile_window const& w) {
            tally const t = count_kept(full{}, ctx, w);
            ASSERT_EQ(t.kept, t.all);
        });
    });
    expect_consistent(full{});
}

}    // namespace
}    // namespace imbrex_test
