/* Matrix products. Every number of a product is one sum over the inner width in ascending order, by fused multiply-adds,
 * so its bytes depend neither on registers nor on its neighbours. Sums over rows of a minibatch are cut into SPANs, which
 * keeps their error and their data small. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "lanes.h"

#define SPAN 256
#define TALL 6
#ifdef __AVX512F__
#define WIDE 4 /* vectors: 24 sums in 32 registers */
#else
#define WIDE 2 /* 12 sums in 16 registers */
#endif

/* Strides of the left matrix: from row to row of the result, and along the inner width. */
typedef struct {
    const float *numbers;
    int64_t row, inner;
} Left;

#if LANES > HALF
typedef float half __attribute__((vector_size(4 * HALF), aligned(4), may_alias));

/* `tile` of HALF a vector, for networks with few outputs. */
INLINE void half_tile(int rows, Left left, const float *right, int64_t stride, int64_t inner, const float *first, int adds,
                      float *result, int64_t result_stride) {
    half sums[TALL];
    UNROLLED for (int row = 0; row < rows; row++) sums[row] = first ? *(const half *)first : (half){0};
    for (int64_t k = 0; k < inner; k++) {
        __m256 factors = (__m256) * (const half *)(right + k * stride);
        UNROLLED for (int row = 0; row < rows; row++) {
            __m256 factor = _mm256_set1_ps(left.numbers[row * left.row + k * left.inner]);
            sums[row] = (half)_mm256_fmadd_ps(factor, factors, (__m256)sums[row]);
        }
    }
    UNROLLED for (int row = 0; row < rows; row++) {
        half *place = (half *)(result + row * result_stride);
        if (adds) sums[row] += *place;
        *place = sums[row];
    }
}
#endif

/* `rows` x `vectors` numbers of the result: `first` (a row, or NULL for 0) plus the product, added to `result` if `adds`. */
INLINE void tile(int rows, int vectors, Left left, const float *right, int64_t stride, int64_t inner,
                 const float *first, int adds, float *result, int64_t result_stride) {
#if LANES > HALF
    if (!vectors) {
        half_tile(rows, left, right, stride, inner, first, adds, result, result_stride);
        return;
    }
#endif
    vf sums[TALL][WIDE];
    UNROLLED for (int row = 0; row < rows; row++)
        UNROLLED for (int part = 0; part < vectors; part++) sums[row][part] = first ? load(first + part * LANES) : all(0);
    for (int64_t k = 0; k < inner; k++) {
        vf factors[WIDE];
        UNROLLED for (int part = 0; part < vectors; part++) factors[part] = load(right + k * stride + part * LANES);
        UNROLLED for (int row = 0; row < rows; row++) {
            vf factor = all(left.numbers[row * left.row + k * left.inner]);
            UNROLLED for (int part = 0; part < vectors; part++) sums[row][part] = fused(factor, factors[part], sums[row][part]);
        }
    }
    UNROLLED for (int row = 0; row < rows; row++)
        UNROLLED for (int part = 0; part < vectors; part++) {
            float *place = result + row * result_stride + part * LANES;
            if (adds) sums[row][part] += load(place);
            store(place, sums[row][part]);
        }
}

/* A column of tiles, `vectors` wide, HALF a vector for 0. */
INLINE void column(int vectors, Left left, int64_t rows, const float *right, int64_t stride, int64_t inner,
                   const float *first, int adds, float *result, int64_t result_stride) {
    int64_t row = 0;
    for (; row + TALL <= rows; row += TALL) {
        Left below = {left.numbers + row * left.row, left.row, left.inner};
        tile(TALL, vectors, below, right, stride, inner, first, adds, result + row * result_stride, result_stride);
    }
    Left rest = {left.numbers + row * left.row, left.row, left.inner};
    float *place = result + row * result_stride;
    switch (rows - row) {
    case 5: tile(5, vectors, rest, right, stride, inner, first, adds, place, result_stride); break;
    case 4: tile(4, vectors, rest, right, stride, inner, first, adds, place, result_stride); break;
    case 3: tile(3, vectors, rest, right, stride, inner, first, adds, place, result_stride); break;
    case 2: tile(2, vectors, rest, right, stride, inner, first, adds, place, result_stride); break;
    case 1: tile(1, vectors, rest, right, stride, inner, first, adds, place, result_stride); break;
    }
}

/* result [rows, columns] = first + left [rows, inner] right [inner, columns]; `columns` are a multiple of HALF. */
static void product(Left left, int64_t rows, const float *right, int64_t stride, int64_t inner, int64_t columns,
                    const float *first, int adds, float *result, int64_t result_stride) {
    int64_t from = 0;
#define COLUMN(vectors) \
    column(vectors, left, rows, right + from, stride, inner, first ? first + from : 0, adds, result + from, result_stride)
    for (; from + WIDE * LANES <= columns; from += WIDE * LANES) COLUMN(WIDE);
    switch ((columns - from) / LANES) {
#if WIDE > 2
    case 3: COLUMN(3); break;
    case 2: COLUMN(2); break;
#endif
    case 1: COLUMN(1); break;
    }
#if LANES > HALF
    from += (columns - from) / LANES * LANES;
    if (from < columns) COLUMN(0);
#endif
#undef COLUMN
}

/* The transpose [columns, apart] of a matrix [rows, columns], whose rows are `stride` numbers apart; four rows at once, as
 * their numbers become neighbours. */
static void transpose(const float *from, int64_t stride, int64_t rows, int64_t columns, float *to, int64_t apart) {
    int64_t whole = rows / 4 * 4;
    for (int64_t row = 0; row < whole; row += 4)
        for (int64_t column = 0; column < columns; column++) {
            const float *place = from + row * stride + column;
            *(four *)(to + column * apart + row) = (four){place[0], place[stride], place[2 * stride], place[3 * stride]};
        }
    for (int64_t row = whole; row < rows; row++)
        for (int64_t column = 0; column < columns; column++) to[column * apart + row] = from[row * stride + column];
}

#endif
