import { expect, it } from 'vitest';
import { gateErrors } from '../../src/jobs/gate-errors.ts';
import { instantClock } from '../support/instant-clock.ts';
import { logInto, type BenchLine } from './worker-bench.ts';

it('logs a kind of error once in 30 s and then says how many it held back', () => {
  const lines: BenchLine[] = [];
  const clock = instantClock();
  const gate = gateErrors(logInto(lines), clock);
  for (let index = 0; index < 1000; index += 1) gate(new Error(`OOM command not allowed (${index})`));
  gate(new Error('NOAUTH Authentication required'));
  expect(lines).toHaveLength(2);
  clock.advance(30_000);
  gate(new Error('OOM command not allowed'));
  expect(lines[2]?.facts).toMatchObject({ kind: 'OOM', repeated: 999 });
});
