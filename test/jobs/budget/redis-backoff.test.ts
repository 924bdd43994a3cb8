import { expect, it } from 'vitest';
import { openRedisBackoff } from '../../../src/jobs/shared-budgets.ts';
import { instantClock } from '../../support/instant-clock.ts';

const gone = (): Promise<never> => Promise.reject(new Error('ECONNREFUSED'));
const there = (): Promise<string> => Promise.resolve('PONG');

it('retries after 1 s, then 2, 4 and up to 30 s', async () => {
  const clock = instantClock();
  const ask = openRedisBackoff(clock, () => undefined);
  const askedAt: number[] = [];
  for (let moment = 0; moment < 200; moment += 1) {
    await ask(() => {
      askedAt.push(clock.now());
      return gone();
    });
    clock.advance(500);
  }
  const pauses = askedAt.slice(1).map((at, index) => at - (askedAt[index] ?? 0));
  expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
});

it('sends a single trial command after a pause', async () => {
  const clock = instantClock();
  const ask = openRedisBackoff(clock, () => undefined);
  await ask(gone);
  clock.advance(1_000);
  const answers = await Promise.all([ask(there), ask(there), ask(there)]);
  expect(answers).toEqual(['PONG', null, null]);
  expect(await Promise.all([ask(there), ask(there)])).toEqual(['PONG', 'PONG']);
});

it('counts failures of concurrent commands as one', async () => {
  const clock = instantClock();
  const errors: Error[] = [];
  const ask = openRedisBackoff(clock, (error) => errors.push(error));
  await Promise.all(Array.from({ length: 10 }, () => ask(gone)));
  expect(errors).toHaveLength(10);
  clock.advance(1_000);
  expect(await ask(there)).toBe('PONG');
});

it('starts with the short pause again after a success', async () => {
  const clock = instantClock();
  const ask = openRedisBackoff(clock, () => undefined);
  for (let failure = 0; failure < 5; failure += 1) {
    await ask(gone);
    clock.advance(30_000);
  }
  expect(await ask(there)).toBe('PONG');
  await ask(gone);
  clock.advance(1_000);
  expect(await ask(there)).toBe('PONG');
});
