// Forward and Viterbi with the path, as an engineer writes it: one person after the other, row by row.
#include <cmath>
#include <cstdint>
#include <vector>

extern "C" void decode(
    int64_t people, int64_t places, int64_t exits, int64_t steps, int64_t locations, const int32_t *column,
    const double *weight, const int32_t *own, const int32_t *labels, const double *likelihood,
    double *log_likelihood, double *log_path, int32_t *path) {
  std::vector<double> now(places), next(places), best(places), better(places);
  std::vector<int32_t> from(steps * places);
  for (int64_t i = 0; i < people; i++) {
    const int32_t *to = column + i * places * exits, *mine = own + i * places;
    const double *p = weight + i * places * exits, *seen = likelihood + i * steps * 2;
    double sum_log = 0, best_log = 0;
    for (int64_t t = 0; t < steps; t++) {
      const double before = 1.0 / places;
      for (int64_t y = 0; y < places; y++) next[y] = better[y] = t ? 0.0 : before;
      if (t) {
        for (int64_t x = 0; x < places; x++)
          for (int64_t e = 0; e < exits; e++) {
            const int64_t y = to[x * exits + e];
            const double w = p[x * exits + e];
            next[y] += now[x] * w;
            if (best[x] * w > better[y]) { better[y] = best[x] * w; from[t * places + y] = x; }
          }
      }
      double total = 0, top = 0;
      for (int64_t y = 0; y < places; y++) {
        const double e = seen[2 * t + labels[t * locations + mine[y]]];
        next[y] *= e; better[y] *= e;
        total += next[y];
        if (better[y] > top) top = better[y];
      }
      for (int64_t y = 0; y < places; y++) { now[y] = next[y] / total; best[y] = better[y] / top; }
      sum_log += std::log(total); best_log += std::log(top);
    }
    int32_t at = 0;
    for (int64_t y = 1; y < places; y++) if (best[y] > best[at]) at = y;
    for (int64_t t = steps - 1; t >= 0; t--) { path[i * steps + t] = at; if (t) at = from[t * places + at]; }
    log_likelihood[i] = sum_log; log_path[i] = best_log;
  }
}

// The same column by column: what arrives at a place is gathered, and nothing is written twice.
extern "C" void decode_by_columns(
    int64_t people, int64_t places, int64_t exits, int64_t steps, int64_t locations, const int32_t *start,
    const int32_t *row, const double *weight, const int32_t *own, const int32_t *labels,
    const double *likelihood, double *log_likelihood, double *log_path, int32_t *path) {
  std::vector<double> now(places), next(places), best(places), better(places);
  std::vector<int32_t> from(steps * places);
  for (int64_t i = 0; i < people; i++) {
    const int32_t *begin = start + i * (places + 1), *of = row + i * places * exits, *mine = own + i * places;
    const double *p = weight + i * places * exits, *seen = likelihood + i * steps * 2;
    double sum_log = 0, best_log = 0;
    for (int64_t t = 0; t < steps; t++) {
      double total = 0, top = 0;
      for (int64_t y = 0; y < places; y++) {
        double sum = t ? 0.0 : 1.0 / places, most = sum;
        int32_t arrived = 0;
        for (int32_t k = begin[y]; t && k < begin[y + 1]; k++) {
          const double candidate = best[of[k]] * p[k];
          sum += now[of[k]] * p[k];
          arrived = candidate > most ? of[k] : arrived;
          most = candidate > most ? candidate : most;
        }
        from[t * places + y] = arrived;
        const double e = seen[2 * t + labels[t * locations + mine[y]]];
        next[y] = sum * e; better[y] = most * e;
        total += next[y];
        top = better[y] > top ? better[y] : top;
      }
      for (int64_t y = 0; y < places; y++) { now[y] = next[y] / total; best[y] = better[y] / top; }
      sum_log += std::log(total); best_log += std::log(top);
    }
    int32_t at = 0;
    for (int64_t y = 1; y < places; y++) if (best[y] > best[at]) at = y;
    for (int64_t t = steps - 1; t >= 0; t--) { path[i * steps + t] = at; if (t) at = from[t * places + at]; }
    log_likelihood[i] = sum_log; log_path[i] = best_log;
  }
}
