// What rules are written in, so that one generic lambda serves scalars and lanes: gather, select, score arithmetic and any scalar
// function lane by lane. A number goes through lanes wherever rounding could differ, so that it is what each lane would be.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "imbrex/simd.hpp"

namespace imbrex {

template <class T>
inline constexpr bool is_lanes = false;
template <class T, class A>
inline constexpr bool is_lanes<xsimd::batch<T, A>> = true;

template <class T>
inline constexpr bool is_lane_mask = false;
template <class T, class A>
inline constexpr bool is_lane_mask<xsimd::batch_bool<T, A>> = true;

}    // namespace imbrex

IMBREX_ISA_BEGIN

// The score type's scalar: float or double, of a number or of lanes.
template <class S>
struct scalar_of {
    using type = S;
};
template <class T, class A>
struct scalar_of<xsimd::batch<T, A>> {
    using type = T;
};

// Lanes of an index type as an array to loop over; a number as an array of equals.
template <int W, class I>
struct lane_array {
    alignas(64) array_of<I, W> at;

    template <class A>
    explicit lane_array(xsimd::batch<I, A> x) noexcept {
        x.store_aligned(at);
        asm(""
            : "+m"(at));    // g++ else takes each lane out of the register, which costs twice the loads (gather: 31 -> 25 cycles)
    }
    template <class N>
        requires std::is_arithmetic_v<N>
    explicit lane_array(N x) noexcept {
        for (int i = 0; i < W; ++i) at[i] = static_cast<I>(x);
    }
};

// f(a, b, c) of numbers, or lane by lane as soon as one of them is lanes. f takes integers and returns bool, for a mask, ...
// Decision: never inlined. The loop is long where a rule asks from several places, and the call costs little beside 16
// evaluations of f.
template <class F, class A, class B, class C>
IMBREX_NOINLINE auto lanewise_mask(F const& f, A const& a, B const& b, C const& c) noexcept {
    if constexpr (!is_lanes<A> && !is_lanes<B> && !is_lanes<C>) {
        return static_cast<bool>(f(a, b, c));
    } else {
        using V = std::conditional_t<is_lanes<A>, A, std::conditional_t<is_lanes<B>, B, C>>;
        using I = typename scalar_of<V>::type;
        constexpr int W = static_cast<int>(V::size);
        lane_array<W, I> const x(a), y(b), z(c);
        alignas(64) array_of<I, W> seen;
        for (int i = 0; i < W; ++i) seen[i] = f(x.at[i], y.at[i], z.at[i]) ? I(1) : I(0);
        return V::load_aligned(seen) != V(I(0));
    }
}

// ... or a float, for scores of type S.
template <class S, class F, class A, class B, class C>
IMBREX_NOINLINE S lanewise_score(F const& f, A const& a, B const& b, C const& c) noexcept {
    if constexpr (!is_lanes<S>) {
        return static_cast<S>(f(a, b, c));
    } else if constexpr (!is_lanes<A> && !is_lanes<B> && !is_lanes<C>) {
        return S(static_cast<typename scalar_of<S>::type>(f(a, b, c)));
    } else {
        using T = typename scalar_of<S>::type;
        using I = lane_int<T>;
        constexpr int W = static_cast<int>(S::size);
        lane_array<W, I> const x(a), y(b), z(c);
        alignas(64) array_of<T, W> value;
        for (int i = 0; i < W; ++i) value[i] = static_cast<T>(f(x.at[i], y.at[i], z.at[i]));
        return S::load_aligned(value);
    }
}

// One element of a table as a score of type S is held: float where S is of floats. A finite double that is no float is held to
// the largest or lowest one.
template <class S, class E>
IMBREX_ALWAYS_INLINE auto element_as(E const& e) noexcept {
    if constexpr (std::is_same_v<typename scalar_of<S>::type, double>) {
        return to_double(e);
    } else if constexpr (std::is_same_v<E, double>) {
        constexpr double most = std::numeric_limits<float>::max(), infinite = std::numeric_limits<double>::infinity();
        bool const finite = e > -infinite && e < infinite;
        return static_cast<float>(finite && e > most ? most : finite && e < -most ? -most : e);
    } else {
        return to_float(e);
    }
}

// Whether elements are widened one by one where they are picked: free for bf16. The others are copied and widened together.
template <class E>
inline constexpr bool widens_singly = std::is_same_v<E, double> || std::is_same_v<E, bf16>;

// The elements pick(0), pick(1), ... as lanes of scores.
template <class S, class E, class F>
IMBREX_ALWAYS_INLINE S lanes_of_elements(F const& pick) noexcept {
    using T = typename scalar_of<S>::type;
    constexpr int W = static_cast<int>(S::size);
    using held = std::conditional_t<widens_singly<E>, T, E>;
    alignas(64) array_of<held, W> elements;
    for (int lane = 0; lane < W; ++lane) {
        if constexpr (widens_singly<E>) {
            elements[lane] = element_as<S>(pick(lane));
        } else {
            elements[lane] = pick(lane);
        }
    }
    return seam<T>::load(elements);
}

// table[i] as a score of type S; table holds floats, 16-bit ones too.
template <class S, class E, class I>
IMBREX_ALWAYS_INLINE S gather(E const* table, I const& i) noexcept {
    if constexpr (is_lanes<S> && is_lanes<I>) {
        lane_array<static_cast<int>(S::size), typename scalar_of<I>::type> const n(i);
        return lanes_of_elements<S, E>([&](int lane) noexcept { return table[n.at[lane]]; });
    } else {
        return S(element_as<S>(table[i]));
    }
}

// Lane n is p[n step].
template <class S, class E>
IMBREX_ALWAYS_INLINE S strided_lanes(E const* p, index step) noexcept {
    return lanes_of_elements<S, E>([&](int) noexcept {
        E const e = *p;
        p += step;
        return e;
    });
}

// Integers (a distance, a position) as scores of type S.
template <class S, class I>
IMBREX_ALWAYS_INLINE S as_score(I const& i) noexcept {
    if constexpr (is_lanes<S> && is_lanes<I> && sizeof(typename scalar_of<I>::type) == 4) {
        return seam<typename scalar_of<S>::type>::from_int(i);
    } else if constexpr (is_lanes<S> && is_lanes<I>) {
        return lanewise_score<S>([](auto n, auto, auto) noexcept { return n; }, i, 0, 0);
    } else {
        return S(static_cast<typename scalar_of<S>::type>(i));
    }
}

// A mask over integer lanes, or a bool, as a mask over lanes of integers that match T's.
template <class T, class M>
IMBREX_ALWAYS_INLINE xsimd::batch_bool<lane_int<T>> as_lane_mask(M const& keep) noexcept {
    if constexpr (is_lane_mask<M>) {
        return keep;
    } else {
        return xsimd::batch_bool<lane_int<T>>(static_cast<bool>(keep));
    }
}

// Where `keep`, a, else b; keep is a bool or a mask over lanes of integers or scores, a and b numbers or lanes of scores.
template <class M, class S>
IMBREX_ALWAYS_INLINE S select(M const& keep, S const& a, S const& b) noexcept {
    if constexpr (is_lanes<S> && std::is_same_v<M, xsimd::batch_bool<typename scalar_of<S>::type>>) {
        return xsimd::select(keep, a, b);
    } else if constexpr (is_lane_mask<M>) {
        return xsimd::select(as_score_mask<typename scalar_of<S>::type>(keep), a, b);
    } else {
        return keep ? a : b;
    }
}

// a b + c.
template <class S>
IMBREX_ALWAYS_INLINE S multiply_add(S const& a, S const& b, S const& c) noexcept {
    using T = typename scalar_of<S>::type;
    if constexpr (is_lanes<S>) {
        return seam<T>::fma(a, b, c);
    } else {
        return seam<T>::fma(lanes<T>(a), lanes<T>(b), lanes<T>(c)).get(0);
    }
}

template <class S>
IMBREX_ALWAYS_INLINE S larger(S const& a, S const& b) noexcept {
    if constexpr (is_lanes<S>) {
        return seam<typename scalar_of<S>::type>::max(a, b);
    } else {
        return a < b ? b : a;
    }
}

// `after`, which a transform made of the score `before`: a finite score is a number however far it gets, and only what was hidden
// (-inf) is hidden still.
template <class S>
IMBREX_ALWAYS_INLINE S hidden_as(S const& before, S const& after) noexcept {
    using T = typename scalar_of<S>::type;
    constexpr T lowest = std::numeric_limits<T>::lowest(), most = std::numeric_limits<T>::max();
    T const hidden = -std::numeric_limits<T>::infinity();
    if constexpr (is_lanes<S>) {
        return xsimd::select(before == S(hidden), before, seam<T>::at_least(S(lowest), seam<T>::at_most(S(most), after)));
    } else {
        return before == hidden ? before : after < lowest ? lowest : after > most ? most : after;
    }
}

// `after`, but what was hidden is hidden still.
template <class S>
IMBREX_ALWAYS_INLINE S still_hidden(S const& before, S const& after) noexcept {
    return imbrex::select(before == S(-std::numeric_limits<typename scalar_of<S>::type>::infinity()), before, after);
}

// before + bias, likewise; a bias of -inf hides too.
template <class S>
IMBREX_ALWAYS_INLINE S biased(S const& before, S const& bias) noexcept {
    using T = typename scalar_of<S>::type;
    T const lowest = std::numeric_limits<T>::lowest(), hidden = -std::numeric_limits<T>::infinity();
    S const sum = before + bias;
    if constexpr (is_lanes<S>) {
        // -inf in either: hidden. In the sum alone: an overflow, held at the lowest number.
        auto const either = (before == S(hidden)) | (bias == S(hidden));
        return xsimd::select(either, S(hidden), seam<T>::at_least(S(lowest), sum));
    } else {
        return before == hidden || bias == hidden ? hidden : sum < lowest ? lowest : sum;
    }
}

IMBREX_ISA_END
