// SPDX-License-Identifier: MIT
// What the optimizers' entry points refuse, and the numbers of a step.
#include "ops/optim/host/blockwise.h"
#include "ops/optim/host/optimizer.h"
#include "ops/optim/numbers.h"

namespace kw::optimizer {
namespace {

using blockwise::check_pointer;

struct Span {
  uintptr_t begin, end;
  const char* name;
};

Span span(const char* name, const void* data, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return {begin, begin + static_cast<uintptr_t>(bytes), name};
}

kw_status check_apart(const char* name, const Span* spans, int count) {
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < i; ++j) {
      if (spans[i].begin < spans[j].end && spans[j].begin < spans[i].end)
        return fail(KW_ERROR_INVALID_ARGUMENT,
                    "%s: %s overlaps %s, and one of them is written to; give it memory of its own", name, spans[i].name,
                    spans[j].name);
    }
  }
  return KW_OK;
}

kw_status check_tensor(const char* name, bool coded, const kw_optimizer_tensor& t, int states, int32_t dtype) {
  KW_TRY(blockwise::check_count(name, t.count));
  if (t.count == 0) return KW_OK;
  const unsigned size = dtype == KW_FLOAT32 ? 4 : 2, of_state = coded ? 1 : 4;
  KW_TRY(check_pointer(name, "param", t.param, size));
  KW_TRY(check_pointer(name, "grad", t.grad, size));
  KW_TRY(check_pointer(name, "state1", t.state1, of_state));
  if (states > 1) KW_TRY(check_pointer(name, "state2", t.state2, of_state));
  if (coded) KW_TRY(check_pointer(name, "absmax1", t.absmax1, 4));
  if (coded && states > 1) KW_TRY(check_pointer(name, "absmax2", t.absmax2, 4));
  const int64_t twice = states == 3 ? 2 : 1, blocks = (t.count + kBlock - 1) / kBlock;
  Span spans[6] = {span("param", t.param, t.count * size), span("grad", t.grad, t.count * size),
                   span("state1", t.state1, t.count * of_state * twice)};
  int count = 3;
  if (states > 1) spans[count++] = span("state2", t.state2, t.count * of_state);
  if (coded) spans[count++] = span("absmax1", t.absmax1, blocks * 4 * twice);
  if (coded && states > 1) spans[count++] = span("absmax2", t.absmax2, blocks * 4);
  return check_apart(name, spans, count);
}

bool of_gradient(int32_t rule) { return rule == KW_MOMENTUM || rule == KW_RMSPROP || rule == KW_ADAGRAD; }

}  // namespace

kw_status check_optimizer(const char* name, const kw_optimizer* optimizer) {
  KW_TRY(check_pointer(name, "optimizer", optimizer, 8));
  const kw_optimizer& o = *optimizer;
  if (o.rule < KW_ADAM || o.rule > KW_LION)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: optimizer has rule %d; it must be KW_ADAM (0) to KW_LION (5)", name,
                o.rule);
  if (o.step < 1)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: optimizer has step %lld; the first is 1", name, (long long)o.step);
  return KW_OK;
}

kw_status check(const char* name, int32_t device, bool coded, const OptimizerStep& s) {
  KW_TRY(blockwise::check_device(name, device));
  KW_TRY(blockwise::check_dtype(name, s.dtype));
  KW_TRY(check_optimizer(name, s.optimizer));
  if (s.number < 0 || s.number > blockwise::kMaxElements)
    return fail(KW_ERROR_INVALID_ARGUMENT, "%s: number is %lld; it must be how many tensors there are", name,
                (long long)s.number);
  if (s.number == 0) return KW_OK;
  KW_TRY(check_pointer(name, "tensors", s.tensors, 8));
  const int states = states_of(s.optimizer->rule);
  if (coded) KW_TRY(check_pointer(name, "map1", s.map1, 4));
  if (coded && states > 1) KW_TRY(check_pointer(name, "map2", s.map2, 4));
  for (int64_t i = 0; i < s.number; ++i) KW_TRY(check_tensor(name, coded, s.tensors[i], states, s.dtype));
  return KW_OK;
}

KwOptimizerStep step_of(const kw_optimizer& o) {
  return {o.lr, o.beta1, o.beta2, o.beta3, o.alpha, of_gradient(o.rule) ? 0 : o.weight_decay, o.step};
}

KwOptimizerParams numbers_of(const OptimizerStep& s) {
  const kw_optimizer& o = *s.optimizer;
  auto single = [](double value) { return static_cast<float>(value); };
  KwOptimizerParams p{};
  p.rule = o.rule;
  p.dtype = s.dtype;
  p.beta1 = single(o.beta1);
  p.rest1 = single(1 - o.beta1);
  p.beta2 = single(o.beta2);
  p.rest2 = single(1 - o.beta2);
  p.eps = single(o.eps);
  p.grad_decay = o.weight_decay > 0 && of_gradient(o.rule) ? single(o.weight_decay) : 0.0f;
  p.grad_scale = single(o.grad_scale);
  if (s.moving == nullptr) p.moves = optimizer_moves(step_of(o));
  return p;
}

}  // namespace kw::optimizer
