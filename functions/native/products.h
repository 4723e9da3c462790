/* Matrix products. Every number of a product is one sum over the inner width in ascending order, by fused multiply-adds,
 * so its bytes depend neither on registers nor on its neighbours. Sums over rows of a minibatch are cut into SPANs, which
 * keeps their error and their data small. */
#ifndef ML_PRODUCTS_H
#define ML_PRODUCTS_H

#include "lanes.h"

#define ML_SPAN 256
#define ML_TILE_ROWS 6
#define ML_HALF_VECTOR 0 /* vectors of a tile */
#ifdef __AVX512F__
#define ML_TILE_VECTORS 4 /* vectors: 24 sums in 32 registers */
#else
#define ML_TILE_VECTORS 2 /* 12 sums in 16 registers */
#endif

/* Strides of the left matrix: from row to row of the result, and along the inner width. */
typedef struct {
    const float *numbers;
    int64_t row, inner;
} Left;

#if ML_LANES > ML_HALF
ML_INLINE eight load_half(const float *place) { return *(const eight *)place; }

/* `tile` of half a vector, for networks with few outputs. */
ML_INLINE void half_tile(int rows, Left left, const float *right, int64_t stride, int64_t inner, const float *first, int adds,
                      float *result, int64_t result_stride) {
    eight sums[ML_TILE_ROWS];
    ML_UNROLLED for (int row = 0; row < rows; row++) sums[row] = first ? load_half(first) : (eight){0};
    for (int64_t k = 0; k < inner; k++) {
        __m256 factors = (__m256)load_half(right + k * stride);
        ML_UNROLLED for (int row = 0; row < rows; row++) {
            __m256 factor = _mm256_set1_ps(left.numbers[row * left.row + k * left.inner]);
            sums[row] = (eight)_mm256_fmadd_ps(factor, factors, (__m256)sums[row]);
        }
    }
    ML_UNROLLED for (int row = 0; row < rows; row++) {
        float *place = result + row * result_stride;
        if (adds) sums[row] += load_half(place);
        *(eight *)place = sums[row];
    }
}
#endif

/* `rows` x `vectors` numbers of the result: `first` (a row, or NULL for 0) plus the product, added to `result` if `adds`. */
ML_INLINE void tile(int rows, int vectors, Left left, const float *right, int64_t stride, int64_t inner,
                 const float *first, int adds, float *result, int64_t result_stride) {
#if ML_LANES > ML_HALF
    if (vectors == ML_HALF_VECTOR) {
        half_tile(rows, left, right, stride, inner, first, adds, result, result_stride);
        return;
    }
#endif
    vf sums[ML_TILE_ROWS][ML_TILE_VECTORS];
    ML_UNROLLED for (int row = 0; row < rows; row++)
        ML_UNROLLED for (int part = 0; part < vectors; part++) sums[row][part] = first ? load(first + part * ML_LANES) : broadcast(0);
    for (int64_t k = 0; k < inner; k++) {
        vf factors[ML_TILE_VECTORS];
        ML_UNROLLED for (int part = 0; part < vectors; part++) factors[part] = load(right + k * stride + part * ML_LANES);
        ML_UNROLLED for (int row = 0; row < rows; row++) {
            vf factor = broadcast(left.numbers[row * left.row + k * left.inner]);
            ML_UNROLLED for (int part = 0; part < vectors; part++) sums[row][part] = fused(factor, factors[part], sums[row][part]);
        }
    }
    ML_UNROLLED for (int row = 0; row < rows; row++)
        ML_UNROLLED for (int part = 0; part < vectors; part++) {
            float *place = result + row * result_stride + part * ML_LANES;
            if (adds) sums[row][part] += load(place);
            store(place, sums[row][part]);
        }
}

/* A column of tiles, `vectors` wide. */
ML_INLINE void column(int vectors, Left left, int64_t rows, const float *right, int64_t stride, int64_t inner,
                   const float *first, int adds, float *result, int64_t result_stride) {
    int64_t row = 0;
    for (; row + ML_TILE_ROWS <= rows; row += ML_TILE_ROWS) {
        Left below = {left.numbers + row * left.row, left.row, left.inner};
        tile(ML_TILE_ROWS, vectors, below, right, stride, inner, first, adds, result + row * result_stride, result_stride);
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

/* result [rows, columns] = first + left [rows, inner] right [inner, columns]; `columns` are a multiple of ML_HALF. */
static void product(Left left, int64_t rows, const float *right, int64_t stride, int64_t inner, int64_t columns,
                    const float *first, int adds, float *result, int64_t result_stride) {
    int64_t from = 0;
#define COLUMN(vectors) \
    column(vectors, left, rows, right + from, stride, inner, first ? first + from : 0, adds, result + from, result_stride)
    for (; from + ML_TILE_VECTORS * ML_LANES <= columns; from += ML_TILE_VECTORS * ML_LANES) COLUMN(ML_TILE_VECTORS);
    switch ((columns - from) / ML_LANES) {
#if ML_TILE_VECTORS > 2
    case 3: COLUMN(3); break;
    case 2: COLUMN(2); break;
#endif
    case 1: COLUMN(1); break;
    }
#if ML_LANES > ML_HALF
    from += (columns - from) / ML_LANES * ML_LANES;
    if (from < columns) COLUMN(ML_HALF_VECTOR);
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
