import { describe, expect, it } from 'vitest';
import { parseListenAddress } from '../../src/monitor/listen-address.ts';

describe('the address to listen on', () => {
  it.each([
    ['9400', '127.0.0.1', 9400],
    [':9400', null, 9400],
    ['127.0.0.1:9400', '127.0.0.1', 9400],
    ['0.0.0.0:80', '0.0.0.0', 80],
    ['[::1]:9400', '::1', 9400],
    ['[::]:9400', '::', 9400],
    ['localhost:0', 'localhost', 0],
    ['worker-1.internal:65535', 'worker-1.internal', 65_535],
  ])('reads %s', (text, host, port) => {
    expect(parseListenAddress(text)).toEqual({ host, port });
  });

  it.each([
    '',
    ':',
    'localhost',
    'localhost:',
    '65536',
    ':99999',
    '-1',
    '9400x',
    '::1:9400',
    '[::1]9400',
    '[nonsense]:1',
    '[127.0.0.1]:1',
    'a b:1',
    'http://localhost:9400',
    '-host:1',
    ' 9400',
  ])('rejects "%s" and names the accepted forms', (text) => {
    expect(() => parseListenAddress(text)).toThrow(
      expect.objectContaining({ code: 'USAGE', message: expect.stringContaining(':9400 (every interface)') }),
    );
  });
});
