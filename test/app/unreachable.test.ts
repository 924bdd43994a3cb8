import { expect, it } from 'vitest';
import { SyncError, type ErrorCode } from '../../src/core/errors.ts';
import { sayUnreachable } from '../../src/app/wire-app.ts';

const baseUrl = 'http://127.0.0.1:8799/prefix';

it('names the origin and what to check', () => {
  const said = sayUnreachable(failure('NETWORK', 'ECONNREFUSED'), baseUrl);
  expect(said).toMatchObject({
    code: 'NETWORK',
    recovery: 'retry',
    context: { cause: 'ECONNREFUSED' },
    message:
      'http://127.0.0.1:8799: list lists: it failed. Is api.baseUrl right, is the service running, and may this machine reach it?',
  });
});

it('leaves every other failure unchanged', () => {
  const others = [
    new SyncError('HTTP 504', { code: 'TIMEOUT', recovery: 'retry' }),
    failure('UPSTREAM', 'ECONNREFUSED'),
    new Error('x'),
    'x',
  ];
  expect(others.map((error) => sayUnreachable(error, baseUrl))).toEqual(others);
});

function failure(code: ErrorCode, cause: string): SyncError {
  return new SyncError('list lists: it failed', { code, recovery: 'retry', context: { cause, attempts: 6 } });
}
