/* A step of bodies in the plane, E environments at once, in double precision: operation by operation that of
 * functions/environments/mpe/world.py. */
#ifndef PHYSICS_H
#define PHYSICS_H

#include "doubles.h"

#define TIME_STEP 0.1
#define DAMPING 0.25
#define CONTACT_FORCE 1e2
#define CONTACT_MARGIN 1e-3

/* Positions [rows, 2, envs] begin with those of the agents, `velocity` and `force` [agents, 2, envs]; `relative` and
 * `squares` [agents, rows, 2, envs], `distance` [agents, rows, envs]. Agents that move are neighbours; `most_speed` [moving]
 * is theirs. Pairs of bodies in contact: the `first` is an agent, and so is the second if it is one of `agents`. */
typedef struct {
    int64_t agents, rows, envs, first_moving, moving, pairs;
    double *position, *velocity, *force, *relative, *squares, *distance;
    const double *most_speed, *reach;
    const int64_t *first, *second;
    double *strength; /* [envs] */
} World;

static void push_apart(const World *world, int64_t pair) {
    int64_t envs = world->envs, first = world->first[pair], second = world->second[pair];
    int64_t place = first * world->rows + second;
    const double *apart = world->distance + place * envs;
    double reach = world->reach[pair], *strength = world->strength;
    for (int64_t env = 0; env < envs; env++)
        strength[env] = softplus_double((reach - apart[env]) / CONTACT_MARGIN) * CONTACT_MARGIN;
    for (int64_t axis = 0; axis < 2; axis++) {
        const double *away = world->relative + (2 * place + axis) * envs;
        double *of_first = world->force + (2 * first + axis) * envs;
        double *of_second = second < world->agents ? world->force + (2 * second + axis) * envs : 0;
        for (int64_t env = 0; env < envs; env++) {
            double push = away[env] * CONTACT_FORCE / apart[env] * strength[env];
            of_first[env] -= push;
            if (of_second) of_second[env] += push;
        }
    }
}

static void move(const World *world, int64_t mover) {
    int64_t envs = world->envs, body = world->first_moving + mover;
    double *position = world->position + 2 * body * envs, *velocity = world->velocity + 2 * body * envs;
    const double *force = world->force + 2 * body * envs;
    for (int64_t place = 0; place < 2 * envs; place++) {
        position[place] += velocity[place] * TIME_STEP;
        velocity[place] = velocity[place] * (1 - DAMPING) + force[place] * TIME_STEP;
    }
    double most = world->most_speed[mover], *along = velocity, *up = velocity + envs;
    for (int64_t env = 0; most < __builtin_inf() && env < envs; env++) {
        double speed = __builtin_sqrt(along[env] * along[env] + up[env] * up[env]);
        if (!(speed > most)) continue;
        along[env] = along[env] / speed * most;
        up[env] = up[env] / speed * most;
    }
}

static void measure(const World *world) {
    int64_t envs = world->envs;
    for (int64_t agent = 0; agent < world->agents; agent++)
        for (int64_t row = 0; row < world->rows; row++) {
            const double *to = world->position + 2 * row * envs, *from = world->position + 2 * agent * envs;
            int64_t place = agent * world->rows + row;
            double *relative = world->relative + 2 * place * envs, *squares = world->squares + 2 * place * envs;
            for (int64_t env = 0; env < 2 * envs; env++) {
                relative[env] = to[env] - from[env];
                squares[env] = relative[env] * relative[env];
            }
            for (int64_t env = 0; env < envs; env++)
                world->distance[place * envs + env] = __builtin_sqrt(squares[env] + squares[envs + env]);
        }
}

EXPORT void world_advance(const World *world) {
    for (int64_t pair = 0; pair < world->pairs; pair++) push_apart(world, pair);
    for (int64_t mover = 0; mover < world->moving; mover++) move(world, mover);
    measure(world);
}

#endif
