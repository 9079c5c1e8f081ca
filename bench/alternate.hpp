// Timing in alternation. A shared machine's clock and memory drift from second to second, so nothing here is compared with a
// figure taken at another time: every round runs a slice of the yardstick (the machine's limit), a slice of ours, the yardstick
// again, and then the rivals. Ratios are formed within a round, and the median over the rounds is reported.
#pragma once

#include <ctime>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include <imbrex/config.hpp>

namespace imbrex_bench {

using imbrex::index;

inline double seconds_on(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The middle value, or the mean of the two in the middle; NaN of none.
inline double median(std::vector<double> v) {
    if (v.empty()) return std::nan("");
    auto const middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
    std::nth_element(v.begin(), middle, v.end());
    return v.size() % 2 != 0 ? *middle : (*middle + *std::max_element(v.begin(), middle)) / 2;
}

inline std::vector<double> ratios(std::vector<double> const& a, std::vector<double> const& b) {
    std::vector<double> r;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) r.push_back(a[i] / b[i]);
    return r;
}

// Half the distance between the quartiles, relative to the median: how noisy a figure is.
inline double spread(std::vector<double> v) {
    if (v.size() < 4) return 0;
    std::sort(v.begin(), v.end());
    return (v[v.size() * 3 / 4] - v[v.size() / 4]) / 2 / median(v);
}

// One thing that takes its turn in every round.
struct contestant {
    std::function<void()> call;
    double least_seconds = 5e-3;    // of a slice: a short call is repeated until its slice is as long
    double scale = 1;               // a call does 1 / scale of the work that is reported
    index most_turns = 1000;        // a slow one may leave early; its ratios are those of the rounds that it took part in
    index calls = 1;                // in a slice; calibrate sets it, and whether one goes before it untimed
    index warm_up_calls = 1;
    std::vector<double> seconds{};    // of the reported work, one a round

    // The first call, untimed, touches what later ones need; the second is timed to choose how many fill a slice.
    double calibrate(clockid_t clock) {
        call();
        double const begin = seconds_on(clock);
        call();
        double const once = std::max(1e-9, seconds_on(clock) - begin);
        calls = std::max<index>(1, static_cast<index>(std::ceil(least_seconds / once)));
        // The rivals empty the caches, which would cost a call of 5 ms 5 % (S=512, D=128); in a long one it drowns.
        warm_up_calls = once < 0.1 ? 1 : 0;
        return once * static_cast<double>(calls + warm_up_calls);
    }

    void take_turn(clockid_t clock) {
        if (static_cast<index>(seconds.size()) == most_turns) return;
        for (index i = 0; i < warm_up_calls; ++i) call();
        double const begin = seconds_on(clock);
        for (index i = 0; i < calls; ++i) call();
        seconds.push_back((seconds_on(clock) - begin) / static_cast<double>(calls) * scale);
    }
};

struct race {
    clockid_t clock = CLOCK_THREAD_CPUTIME_ID;    // one thread: its own time, whoever else uses the core
    double budget_seconds = 0.5;                  // rounds go on until this is spent, within the limits below
    index least_rounds = 9;
    index most_rounds = 51;

    // The yardstick has one figure a round: the mean of its slices before and after ours.
    void run(contestant& yardstick, contestant& ours, std::vector<contestant*> const& rivals = {}) const {
        double round = ours.calibrate(clock);
        yardstick.least_seconds = std::clamp(round / 5, 2e-3, 15e-3);
        round += 2 * yardstick.calibrate(clock);
        for (contestant* const r : rivals) round += r->calibrate(clock);
        for (index i = rounds_of(round); i > 0; --i) {
            yardstick.take_turn(clock);
            ours.take_turn(clock);
            yardstick.take_turn(clock);
            double const after = yardstick.seconds.back();
            yardstick.seconds.pop_back();
            yardstick.seconds.back() = (yardstick.seconds.back() + after) / 2;
            for (contestant* const r : rivals) r->take_turn(clock);
        }
    }

    // Rounds of equals: forwards and backwards in turn, so that none is always first.
    void run(std::vector<contestant*> entrants) const {
        double round = 0;
        for (contestant* const e : entrants) round += e->calibrate(clock);
        for (index i = rounds_of(round); i > 0; --i) {
            for (contestant* const e : entrants) e->take_turn(clock);
            std::reverse(entrants.begin(), entrants.end());
        }
    }

private:
    index rounds_of(double round_seconds) const {
        index const n = static_cast<index>(
            std::clamp(budget_seconds / round_seconds, static_cast<double>(least_rounds), static_cast<double>(most_rounds)));
        return n | 1;    // odd, so that the median is one of them
    }
};

}    // namespace imbrex_bench
