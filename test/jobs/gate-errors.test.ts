import { expect, it } from 'vitest';
import { errorKind, gateErrors } from '../../src/jobs/connect-redis.ts';
import { instantClock } from '../support/instant-clock.ts';
import { logInto, type BenchLine } from '../support/jobs/worker-bench.ts';

it('logs a kind of error once in 30 s, then with the number of suppressed ones', () => {
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

it('does not log commands that failed because of a connection failure logged before', () => {
  const lines: BenchLine[] = [];
  const clock = instantClock();
  const gate = gateErrors(logInto(lines), clock);
  const refused = (): void =>
    gate(new Error("Stream isn't writeable and enableOfflineQueue options is false"));
  gate(Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:6379'), { code: 'ECONNREFUSED' }));
  refused();
  expect(lines).toMatchObject([{ facts: { kind: 'ECONNREFUSED' } }]);
  clock.advance(30_000);
  refused();
  expect(lines).toHaveLength(2);
});

it.each([
  ["OOM command not allowed when used memory > 'maxmemory'. script: f00", 'OOM'],
  [
    "ERR Error running script (call to f_4b6): @user_script:36: @user_script: 36: -OOM command not allowed when used memory > 'maxmemory'.",
    'OOM',
  ],
  [
    "ERR Error running script (call to f_4b6): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.",
    'READONLY',
  ],
  ['ERR unknown command', 'ERR'],
])('finds the error code in the messages of every Redis version: %s', (message, kind) => {
  expect(errorKind(new Error(message))).toBe(kind);
});
