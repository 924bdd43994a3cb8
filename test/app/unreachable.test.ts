import { expect, it } from 'vitest';
import { SyncError, type ErrorCode } from '../../src/core/errors.ts';
import { sayUnreachable } from '../../src/app/wire-app.ts';

const baseUrl = 'http://127.0.0.1:8799/prefix';

it.each([
  ['ECONNREFUSED', 'refused the connection (ECONNREFUSED) after 6 attempts:', 'is the service running?'],
  ['ENOTFOUND', 'has a host name that was not found', 'does DNS work here?'],
  ['UND_ERR_CONNECT_TIMEOUT', 'could not be reached', 'network, firewall'],
  ['UND_ERR_SOCKET', 'closed the connection without a complete answer', 'Another program than the API'],
  ['HPE_INVALID_CONSTANT', 'does not answer in HTTP', 'Another program than the API'],
])('%s names the origin and what to check', (cause, what, advice) => {
  const said = sayUnreachable(failure('NETWORK', cause), baseUrl);
  expect(said).toMatchObject({ code: 'NETWORK', recovery: 'retry', context: { cause } });
  expect(String(said)).toContain(`http://127.0.0.1:8799 ${what}`);
  expect(String(said)).toContain(advice);
  expect(String(said)).not.toContain('prefix');
});

it('leaves every other failure unchanged', () => {
  const others = [
    failure('NETWORK', 'Z_BUF_ERROR'),
    failure('UPSTREAM', 'ECONNREFUSED'),
    new Error('x'),
    'x',
  ];
  expect(others.map((error) => sayUnreachable(error, baseUrl))).toEqual(others);
});

function failure(code: ErrorCode, cause: string): SyncError {
  return new SyncError('list lists: it failed', { code, recovery: 'retry', context: { cause, attempts: 6 } });
}
